package tree

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// writeBuffer is how much of an archive is gathered.
const writeBuffer = 64 << 10

// export walks the tree and writes what it finds.
func export(ctx context.Context, fsys files.FS, root string, w io.Writer, o ExportOptions) (Stats, error) {
	t, done, err := open(ctx, fsys, root)
	if err != nil {
		return Stats{}, err
	}
	defer done()
	out := bufio.NewWriterSize(w, writeBuffer)
	e := &exporter{tree: t, o: o, out: tarstream.NewUncheckedWriter(out), buf: make([]byte, writeBuffer)}
	if !o.Unchecked {
		e.out = tarstream.NewWriter(out, tarstream.Options{Limits: o.Limits})
	}
	err = walk(t, fsys, o.Exclude, o.Gitignore, e.entry)
	if err == nil {
		err = tarstream.WriteError(e.out.Close())
	}
	if err == nil {
		err = tarstream.WriteError(out.Flush())
	}
	return statsOf(e.counts, e.skipped), err
}

// exporter is one export under way.
type exporter struct {
	*tree
	o       ExportOptions
	out     *tarstream.Writer
	counts  tarstream.Counts
	skipped int
	buf     []byte
}

func statsOf(c tarstream.Counts, skipped int) Stats {
	return Stats{Files: c.Files, Dirs: c.Dirs, Links: c.Links, Bytes: c.Bytes, Skipped: skipped}
}

// entry writes one entry.
func (e *exporter) entry(path string, kind fs.FileMode) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	name, err := e.name(path)
	if err != nil {
		return err
	}
	switch kind {
	case 0:
		return e.file(path, name)
	case fs.ModeDir, fs.ModeSymlink:
	default:
		e.skipped++
		return nil
	}
	info, err := e.fsys.Stat(e.ctx, name, files.StatOptions{})
	if err != nil {
		return err
	}
	h := e.header(path, &info)
	switch info.Mode.Type() {
	case fs.ModeDir:
		h.Type = tarstream.Dir
	case fs.ModeSymlink:
		h.Type, h.Target, h.Mode = tarstream.Symlink, info.Target, fs.ModePerm
		if e.o.OmitEscapingLinks && tarstream.Escapes(path, info.Target) {
			e.skipped++
			return nil
		}
	default:
		return errChanged
	}
	return e.begin(h)
}

// errChanged is the answer where one file has taken another's name in between.
var errChanged error = spec.New(spec.CodeUnavailable, "it changed while it was read")

// header is that of a file.
func (e *exporter) header(path string, info *files.Info) *tarstream.Header {
	h := &tarstream.Header{Path: path, Mode: info.Mode &^ fs.ModeType, ModTime: info.ModTime}
	if e.o.ZeroTimes {
		h.ModTime = time.Time{}
	}
	return h
}

// begin writes a header.
func (e *exporter) begin(h *tarstream.Header) error {
	if err := e.out.WriteHeader(h); err != nil {
		var refused *RefusedError
		if errors.As(err, &refused) && refused.Reason == BadSymlink {
			err = WithLinkHint(err)
		}
		return tarstream.WriteError(err)
	}
	e.counts.Add(h)
	return nil
}

// WithLinkHint adds to err, which refuses a symbolic link, how to do without it.
func WithLinkHint(err error) error {
	var e *spec.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Hint = "links that may lead out of the tree can be left out"
	return &c
}

// file writes a regular file: as many bytes as it had when it was opened.
func (e *exporter) file(path, name string) error {
	f, err := e.fsys.Open(e.ctx, name, files.OpenOptions{NoFollow: true})
	if err != nil {
		return err
	}
	defer f.Close()
	info := f.Info()
	h := e.header(path, &info)
	h.Type, h.Size = tarstream.File, info.Size
	if err := e.begin(h); err != nil {
		return err
	}
	for {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(e.buf)
		if _, werr := e.out.Write(e.buf[:n]); werr != nil {
			return tarstream.WriteError(werr)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
