package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth/spec"
)

// workers is how many files come out of a place at once: each is a round trip.
const workers = 8

func (h *host) check(name string) error {
	if !filepath.IsLocal(name) || os.PathSeparator != '/' && filepath.Base(name) != name {
		return failed(name, spec.CodeInvalidPath, "this machine can have no file of that name")
	}
	return nil
}

func (h *host) traits() traits { return traits{links: true} }

// mkdir makes a directory that is nobody else's while it is filled.
func (h *host) mkdir(_ context.Context, name string) error {
	return h.err(h.root.Mkdir(filepath.FromSlash(name), 0o700), name, writing)
}

func (h *host) chmod(_ context.Context, name string, mode fs.FileMode) error {
	return h.err(h.root.Chmod(filepath.FromSlash(name), mode.Perm()), name, writing)
}

// symlink makes a link and looks where it leads: a link of this machine that was there
// before could take it further than its own text says.
func (h *host) symlink(_ context.Context, to, name string, replace bool) error {
	local := filepath.FromSlash(name)
	made := local
	if replace {
		made = filepath.FromSlash(join(path.Dir(name), tempName()))
	}
	if err := h.root.Symlink(filepath.FromSlash(to), made); err != nil {
		return h.err(err, name, writing)
	}
	_, err := h.root.Stat(made)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
		err = failed(h.path(name), spec.CodeUnsupported, "the symbolic link would lead out of the target")
	case replace:
		err = h.err(h.root.Rename(made, local), name, writing)
	default:
		return nil
	}
	if err != nil {
		h.root.Remove(made)
	}
	return err
}

func tempName() string { return ".berth-cp-" + rand.Text() }

// write writes the files, several at once. The first that fails ends the others.
func (h *host) write(ctx context.Context, from side, items []item, count *Counter) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan item)
	var working sync.WaitGroup
	for range min(workers, len(items)) {
		working.Go(func() {
			w := &writer{h: h, from: from, count: count, buf: make([]byte, 256<<10)}
			defer w.leave()
			for it := range todo {
				if err := w.write(ctx, it); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, it := range items {
		if ctx.Err() != nil {
			break
		}
		todo <- it
	}
	close(todo)
	working.Wait()
	return context.Cause(ctx)
}

// writer writes one file after the other. It stays in the directory of the last one:
// the next is mostly there too, and each step from the root costs.
type writer struct {
	h     *host
	from  side
	count *Counter
	buf   []byte

	dir  string
	root *os.Root // of dir; nil: none yet
}

// enter opens the directory of a file.
func (w *writer) enter(dir string) error {
	if w.root != nil && w.dir == dir {
		return nil
	}
	w.leave()
	root, err := w.h.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return w.h.err(err, dir, writing)
	}
	w.dir, w.root = dir, root
	return nil
}

func (w *writer) leave() {
	if w.root != nil {
		w.root.Close()
		w.root = nil
	}
}

// write writes one file beside its name and gives it the name when it is whole.
func (w *writer) write(ctx context.Context, it item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.enter(path.Dir(it.to)); err != nil {
		return err
	}
	src, err := w.from.Open(ctx, it.from)
	if err != nil {
		return err
	}
	defer src.Close()
	temp := tempName()
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return w.h.err(err, it.to, writing)
	}
	landed := false
	defer func() {
		f.Close()
		if !landed {
			w.root.Remove(temp)
		}
	}()
	size := src.Info().Size
	// Only the writer knows how to write a file faster than by a buffer, and it would
	// not look at the context.
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, &counted{r: io.LimitReader(src, size), n: w.count}, w.buf)
	switch {
	case err != nil:
		return w.h.err(err, it.to, writing)
	case n != size:
		return failed(w.from.path(it.from), spec.CodeUnavailable, fmt.Sprintf("the file ended after %d of %d bytes", n, size))
	}
	if err := f.Chmod(it.mode); err != nil {
		return w.h.err(err, it.to, writing)
	}
	if err := f.Close(); err != nil {
		return w.h.err(err, it.to, writing)
	}
	if err := w.land(temp, it); err != nil {
		return w.h.err(err, it.to, writing)
	}
	landed = true
	w.count.Files.Add(1)
	return nil
}

// land gives a file its name. Where somebody else could have taken it meanwhile that is
// seen: a hard link is never made over something.
func (w *writer) land(temp string, it item) error {
	name := filepath.FromSlash(path.Base(it.to))
	if it.force || it.fresh {
		return w.root.Rename(temp, name)
	}
	err := w.root.Link(temp, name)
	if err == nil {
		return w.root.Remove(temp)
	}
	if _, there := w.root.Lstat(name); there == nil || errors.Is(err, fs.ErrExist) {
		return &spec.Error{Op: "copy", Path: w.h.path(it.to), Code: spec.CodeExists, Hint: "--force replaces files that exist"}
	}
	return w.root.Rename(temp, name) // a file system without hard links
}
