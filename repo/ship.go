package repo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// Importer is what takes a clone: a *berth.Sandbox.
type Importer interface {
	Import(ctx context.Context, dir string, r io.Reader, o tree.ImportOptions) (tree.Stats, error)
}

// LastShipped is the file of a clone that Ship puts last: where it is, all of it is.
const LastShipped = ".git/HEAD"

// Ship puts the clone into the directory dir of a place, "" being its workdir. One that
// holds anything is CodeExists. What is put there has nothing of what was needed to get the
// clone, and nothing of who made it. Symbolic links that may lead out of the tree are left
// out and counted as skipped. An error may find a part of it landed, and says how much.
func (c *Cloned) Ship(ctx context.Context, to Importer, dir string) (tree.Stats, error) {
	root, err := os.OpenRoot(c.Dir())
	if err != nil {
		return tree.Stats{}, spec.Wrap(fileError(err), "import", "", "", dir)
	}
	defer root.Close()
	r, w := io.Pipe()
	out := bufio.NewWriterSize(w, shipBuffer)
	p := &packer{ctx: ctx, root: root, tar: tarstream.NewUncheckedWriter(out), buf: make([]byte, shipBuffer)}
	packed := make(chan error, 1)
	go func() {
		err := p.dir(".")
		if err == nil {
			err = p.entry(LastShipped)
		}
		if err == nil {
			err = p.tar.Close()
		}
		if err == nil {
			err = out.Flush()
		}
		w.CloseWithError(err)
		packed <- err
	}()
	// What an entry counts in an archive is no more than this times what it has counted
	// here, whatever its name is.
	const share = 32
	stats, err := to.Import(ctx, dir, r, tree.ImportOptions{Empty: true, Limits: tree.Limits{FileBytes: c.limit, ArchiveBytes: share * min(c.limit, math.MaxInt64/share)}})
	r.CloseWithError(errTaken)
	if failed := <-packed; failed != nil && !errors.Is(failed, errTaken) && ctx.Err() == nil {
		err = fileError(failed)
	}
	stats.Skipped += p.skipped
	return stats, spec.Wrap(err, "import", "", "", dir)
}

// shipBuffer is how much of an archive is gathered.
const shipBuffer = 64 << 10

// errTaken ends the making of an archive that nobody reads any more.
var errTaken = errors.New("nobody reads the archive any more")

// packer makes an archive of a directory of this machine.
type packer struct {
	ctx     context.Context // of the call
	root    *os.Root
	tar     *tarstream.Writer
	buf     []byte
	skipped int
}

func (p *packer) dir(name string) error {
	entries, err := fs.ReadDir(p.root.FS(), name) // sorted
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		at := path.Join(name, e.Name())
		if at == LastShipped {
			continue
		}
		if err := p.entry(at); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return err
	}
	h := &tarstream.Header{Path: name, Mode: info.Mode().Perm()}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Type = tarstream.Dir
		if err := p.tar.WriteHeader(h); err != nil {
			return err
		}
		return p.dir(name)
	case fs.ModeSymlink:
		h.Type, h.Mode = tarstream.Symlink, fs.ModePerm
		if h.Target, err = p.root.Readlink(name); err != nil {
			return err
		}
		if tarstream.Escapes(name, h.Target) {
			p.skipped++
			return nil
		}
		return p.tar.WriteHeader(h)
	case 0:
		return p.file(name, h)
	}
	p.skipped++
	return nil
}

func (p *packer) file(name string, h *tarstream.Header) error {
	f, err := p.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Type, h.Size = tarstream.File, info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(f, h.Size), p.buf)
	return err
}
