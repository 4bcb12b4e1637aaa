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
	"syscall"

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

func (h *host) traits() traits { return traits{leadsOut: h.leadsOut} }

// mkdir makes a directory that is nobody else's while it is filled.
func (h *host) mkdir(_ context.Context, name string) error {
	if !h.masked {
		if err := h.findMask(path.Dir(name)); err != nil {
			return h.err(err, name, writing)
		}
	}
	return h.err(h.root.Mkdir(filepath.FromSlash(name), 0o700), name, writing)
}

// findMask finds out which permissions a directory made in dir does not get. The system
// tells its mask only to who changes it, for all goroutines.
func (h *host) findMask(dir string) error {
	probe := filepath.FromSlash(join(dir, tempName()))
	if err := h.root.Mkdir(probe, fs.ModePerm); err != nil {
		return err
	}
	info, err := h.root.Lstat(probe)
	if err == nil {
		h.mask, h.masked = fs.ModePerm&^info.Mode(), true
	}
	return errors.Join(err, h.root.Remove(probe))
}

func (h *host) chmod(_ context.Context, name string, mode fs.FileMode) error {
	return h.err(h.root.Chmod(filepath.FromSlash(name), mode.Perm()&^h.mask), name, writing)
}

// symlinks makes links and looks where each leads: a link of this machine that was there
// before could take it further than its own text says, by another new one too.
func (h *host) symlinks(ctx context.Context, links []entry) error {
	for _, l := range links {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.symlink(l); err != nil {
			return err
		}
	}
	for _, l := range links {
		if !l.anew && h.leadsOut(l) {
			h.root.Remove(filepath.FromSlash(l.to))
			return h.outside(l)
		}
	}
	return nil
}

func (h *host) outside(l entry) error {
	return failed(h.path(l.to), spec.CodeUnsupported, "the symbolic link would lead out of the target")
}

func (h *host) symlink(l entry) error {
	if !l.anew && h.leadsOut(l) {
		return h.outside(l)
	}
	name := filepath.FromSlash(l.to)
	made := name
	if l.old != nil {
		made = filepath.FromSlash(join(path.Dir(l.to), tempName()))
	}
	err := h.root.Symlink(filepath.FromSlash(l.info.Target), made)
	if err == nil && made != name {
		if err = h.root.Rename(made, name); err != nil {
			h.root.Remove(made)
		}
	}
	return h.err(err, l.to, writing)
}

// leadsOut implements traits. A link whose own text stays leads out only through another.
func (h *host) leadsOut(l entry) bool {
	to := path.Join(path.Dir(l.to), l.info.Target) // its parents are no links
	if to == path.Clean(l.to) {
		return false
	}
	_, err := h.root.Stat(filepath.FromSlash(to))
	for _, harmless := range []error{nil, fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENAMETOOLONG} {
		if errors.Is(err, harmless) {
			return false
		}
	}
	if !errors.Is(err, syscall.ELOOP) {
		return true
	}
	// An os.Root follows few links, the system more.
	real, err := filepath.EvalSymlinks(h.path(to))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	top, err := filepath.EvalSymlinks(h.path("."))
	if err != nil {
		return true
	}
	rel, err := filepath.Rel(top, real)
	return err != nil || !filepath.IsLocal(rel)
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
	// Its mode is what the mask of this machine makes of that which it is to have.
	f, err := w.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, it.mode)
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
