package treecmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// output is the file that an archive goes to.
type output struct {
	*os.File
	name string // that File gets when it is whole; "": it is written where it is
}

// openOutput opens what the user calls name. A file that is there, or that a link leads to,
// is to be replaced; what is no regular file, or is a descriptor of ours, is written to as
// it is. Of a FIFO it awaits the reader.
func openOutput(ctx context.Context, name string) (*output, error) {
	// The system follows links here, so that those of others that it does not follow
	// in a directory like /tmp are followed by nobody.
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, verb.Usage("%s is a directory: name a FILE in it", name)
	case err == nil && !info.Mode().IsRegular():
		return openStream(ctx, name, info.Mode())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, outputError(name, err)
	}
	target, descriptor, err := behind(name)
	if err != nil {
		return nil, outputError(name, err)
	}
	if descriptor {
		// What was written to it before stays before the archive.
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		return &output{File: f}, outputError(name, err)
	}
	f, err := os.CreateTemp(filepath.Dir(target), ".berth-export-*")
	return &output{f, target}, outputError(name, err)
}

// behind is the file that the links at name lead to, which may be missing, or reports that
// it is a descriptor: the text of such a link is no name of the file.
func behind(name string) (target string, descriptor bool, err error) {
	const most = 40 // as in Linux
	for range most {
		dir, base := filepath.Split(name)
		if dir == "" {
			dir = "."
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", false, err
		}
		if strings.HasPrefix(dir, "/proc/") || dir == "/dev/fd" {
			return "", true, nil
		}
		name = filepath.Join(dir, base)
		to, err := os.Readlink(name)
		if err != nil {
			return name, false, nil //nolint:nilerr // it is no link, or nothing
		}
		if !filepath.IsAbs(to) {
			// Not cleaned: what its ".." mean depends on links in it.
			to = dir + string(filepath.Separator) + to
		}
		name = to
	}
	return "", false, syscall.ELOOP
}

// readerInterval is how often a FIFO without a reader is tried again.
const readerInterval = 50 * time.Millisecond

// openStream opens what is no regular file.
func openStream(ctx context.Context, name string, mode fs.FileMode) (*output, error) {
	flag := os.O_WRONLY
	if mode&fs.ModeNamedPipe != 0 {
		flag |= syscall.O_NONBLOCK // or ctx would not end it
	}
	for {
		f, err := os.OpenFile(name, flag, 0)
		if mode&fs.ModeNamedPipe == 0 || !errors.Is(err, syscall.ENXIO) {
			return &output{File: f}, outputError(name, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(readerInterval):
		}
	}
}

// keep ends the file and gives it its name. It stays readable by its owner only, as it was
// made: what is in a sandbox is nobody else's by default.
func (o *output) keep() error {
	if err := o.Close(); err != nil || o.name == "" {
		return outputError(o.Name(), err)
	}
	return outputError(o.name, os.Rename(o.Name(), o.name))
}

// discard ends the file, and removes it if it has not got its name.
func (o *output) discard() {
	_ = o.Close()
	if o.name != "" {
		_ = os.Remove(o.Name())
	}
}

// outputError gives err, of the file that is called name, its code.
func outputError(name string, err error) error {
	if err == nil {
		return nil
	}
	e := &spec.Error{Op: "write", Path: name, Code: spec.CodeUnavailable, Err: err}
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		e.Err = p.Err
	case errors.As(err, &l):
		e.Err = l.Err
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Code = spec.CodePermission
	case errors.Is(err, fs.ErrNotExist):
		e.Code = spec.CodeFileNotFound
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Code = spec.CodeNoSpace
	}
	return e
}
