package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// host is a directory of this machine, which nothing leads out of. Names are relative
// to it and have slashes.
type host struct {
	root *os.Root
	// dir is how messages name the directory; "" is the current one.
	dir string
	// mask is what no directory that is made here gets, once it is known.
	mask   fs.FileMode
	masked bool
}

// HostSource finds what is to be copied from this machine. A link that is named itself
// is followed. The caller closes it.
func HostSource(name string) (*Source, func(), error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, hostError(err, name, reading)
	}
	s := &Source{base: hostBase(name), info: describe(info, "")}
	dir := name
	s.name = "."
	if !info.IsDir() {
		resolved, err := filepath.EvalSymlinks(name)
		if err != nil {
			return nil, nil, hostError(err, name, reading)
		}
		dir, s.name = filepath.Dir(resolved), filepath.Base(resolved)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, hostError(err, name, reading)
	}
	s.side = &host{root: root, dir: dir}
	return s, func() { root.Close() }, nil
}

// HostTarget finds out what a name on this machine is. The caller closes it.
func HostTarget(name string) (*Target, func(), error) {
	info, err := os.Stat(name)
	t, dir := &Target{name: "."}, name
	switch {
	case err == nil && info.IsDir():
		t.dir = true
	case err == nil || errors.Is(err, fs.ErrNotExist):
		dir, t.name = filepath.Dir(filepath.Clean(name)), filepath.Base(name)
	default:
		return nil, nil, hostError(err, name, writing)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, hostError(err, dir, writing)
	}
	t.side = &host{root: root, dir: dir}
	return t, func() { root.Close() }, nil
}

// hostBase is base for a name of this machine.
func hostBase(name string) string {
	b := filepath.Base(name)
	if b == ".." || strings.HasSuffix(b, string(filepath.Separator)) || strings.HasSuffix(filepath.ToSlash(name), "/.") {
		return "."
	}
	return b
}

// Stat implements side.
func (h *host) Stat(_ context.Context, name string, follow bool) (files.Info, error) {
	stat := h.root.Lstat
	if follow {
		stat = h.root.Stat
	}
	info, err := stat(filepath.FromSlash(name))
	if err != nil {
		return files.Info{}, h.err(err, name, reading)
	}
	return describe(info, ""), nil
}

// List implements side.
func (h *host) List(ctx context.Context, dir string, r *Room) ([]files.Info, error) {
	d, err := h.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return nil, h.err(err, dir, reading)
	}
	defer d.Close()
	f, err := d.Open(".")
	if err != nil {
		return nil, h.err(err, dir, reading)
	}
	defer f.Close()
	names, err := f.Readdirnames(r.entries + 1)
	switch {
	case err != nil && len(names) == 0 && err != io.EOF:
		return nil, h.err(err, dir, reading)
	}
	entries := make([]files.Info, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := d.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, h.err(err, join(dir, name), reading)
		}
		target := ""
		if info.Mode().Type() == fs.ModeSymlink {
			if target, err = d.Readlink(name); err != nil {
				return nil, h.err(err, join(dir, name), reading)
			}
		}
		entry := describe(info, target)
		if !r.list(&entry) {
			return nil, tooMany(h.path(dir))
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Open implements side.
func (h *host) Open(ctx context.Context, name string) (files.File, error) {
	f, err := h.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, h.err(err, name, reading)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = failed(h.path(name), spec.CodeNotRegular, "")
	}
	if err != nil {
		f.Close()
		return nil, h.err(err, name, reading)
	}
	file := &hostFile{File: f, ctx: ctx, info: describe(info, "")}
	if info.Size() == 0 {
		if err := file.readPseudo(); err != nil {
			f.Close()
			return nil, h.err(err, name, reading)
		}
	}
	return file, nil
}

// maxPseudo bounds a file of the system that has no size.
const maxPseudo = 4 << 20

// hostFile is an open file of this machine.
type hostFile struct {
	*os.File
	ctx  context.Context // of its Open, as files.File has it
	info files.Info
	// pseudo is what is still to be read of a file that has no size; nil: the file
	// itself is read.
	pseudo *bytes.Reader
}

func (f *hostFile) Info() files.Info { return f.info }

func (f *hostFile) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if f.pseudo != nil {
		return f.pseudo.Read(p)
	}
	return f.File.Read(p)
}

// readPseudo reads a file whose size is said to be 0: those of the system have a content
// all the same.
func (f *hostFile) readPseudo() error {
	data, err := io.ReadAll(io.LimitReader(f.File, maxPseudo+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxPseudo:
		return &spec.Error{Op: "copy", Path: f.Name(), Code: spec.CodeTooLarge, Hint: "pipe it into: berth cp - KEY:PATH"}
	}
	f.pseudo, f.info.Size = bytes.NewReader(data), int64(len(data))
	return nil
}

func describe(info fs.FileInfo, target string) files.Info {
	return files.Info{Name: info.Name(), Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime(), Target: target}
}

// path is how messages name a file.
func (h *host) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h *host) err(err error, name string, w what) error { return hostError(err, h.path(name), w) }

// what was being done when something failed.
type what int

const (
	reading what = iota
	writing
)

// hostError gives an error of package os its code.
func hostError(err error, name string, w what) error {
	if err == nil {
		return nil
	}
	var e *spec.Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code := spec.CodeInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = spec.CodeFileNotFound
	case errors.Is(err, fs.ErrExist):
		code = spec.CodeExists
	case errors.Is(err, syscall.EROFS):
		code = spec.CodeNotWritable
	case errors.Is(err, fs.ErrPermission) && w == writing:
		code = spec.CodeNotWritable
	case errors.Is(err, fs.ErrPermission):
		code = spec.CodePermission
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		code = spec.CodeNotDirectory
	case errors.Is(err, syscall.EISDIR):
		code = spec.CodeIsDirectory
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		code = spec.CodeNoSpace
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		code = spec.CodeInvalidPath
	}
	e = &spec.Error{Op: "copy", Path: name, Code: code}
	if code == spec.CodeInternal {
		var p *fs.PathError
		if e.Err = err; errors.As(err, &p) {
			e.Err = p.Err
		}
		e.Hint = "it happened on this machine, not in a sandbox"
	}
	return e
}
