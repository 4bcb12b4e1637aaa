package kernel

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
)

// maxLinks is how many links one path may lead through.
const maxLinks = 40

// spot is what a path leads to: its real name and what is there.
type spot struct {
	path  string
	info  files.Info
	isDir bool
	proc  bool // it is, or lies below, /proc
}

// locate is find for a file that is followed.
func (k *Kernel) locate(p *Proc, dir, name string) (spot, error) { return k.find(p, dir, name, true) }

// find resolves name, which begins in dir, as p sees it: /proc/self is p's own. p may
// be nil: the guest.
func (k *Kernel) find(p *Proc, dir, name string, follow bool) (spot, error) {
	if name == "" {
		return spot{}, ENOENT
	}
	if strings.HasPrefix(name, "/") {
		dir = "/"
	}
	at := spot{path: dir, info: files.Info{Name: path.Base(dir), Mode: fs.ModeDir | 0o755}}
	if dir != "/" {
		info, err := k.lstat(p, dir)
		if err != nil {
			return spot{}, err
		}
		at.info = info
	}
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		if !at.info.IsDir() {
			return spot{}, ENOTDIR
		}
		if elem == "" || elem == "." {
			continue
		}
		next := path.Join(at.path, elem)
		info, err := k.lstat(p, next)
		if err != nil {
			return spot{}, err
		}
		if info.Mode.Type() == fs.ModeSymlink && (follow || len(rest) > 0) && !isFD(next) {
			if links++; links > maxLinks {
				return spot{}, ELOOP
			}
			if strings.HasPrefix(info.Target, "/") {
				at = spot{path: "/", info: files.Info{Name: "/", Mode: fs.ModeDir | 0o755}}
			}
			rest = append(strings.Split(info.Target, "/"), rest...)
			continue
		}
		at.path, at.info = next, info
	}
	if follow && isFD(at.path) {
		at.info.Mode = fs.ModeDevice | fs.ModeCharDevice | 0o600
	}
	at.isDir = at.info.IsDir()
	at.proc = at.path == "/proc" || strings.HasPrefix(at.path, "/proc/")
	return at, nil
}

// lstat describes the file at a path without links in the middle.
func (k *Kernel) lstat(p *Proc, name string) (files.Info, error) {
	if strings.HasPrefix(name, "/proc/") {
		return k.procStat(p, name)
	}
	info, err := k.FS.Stat(context.Background(), name, files.StatOptions{})
	return info, errno(err)
}

// entry is the real name of an entry of a directory, whether or not it is there.
func (k *Kernel) entry(p *Proc, dir, name string) (string, error) {
	trimmed := strings.TrimRight(name, "/")
	parent, base := path.Split(trimmed)
	if base == "" || base == "." || base == ".." {
		at, err := k.locate(p, dir, name)
		return at.path, err
	}
	if parent == "" {
		parent = "."
	}
	at, err := k.locate(p, dir, parent)
	switch {
	case err != nil:
		return "", err
	case !at.isDir:
		return "", ENOTDIR
	case at.proc:
		return "", EACCES
	}
	return path.Join(at.path, base), nil
}

// openPath opens a file for p.
func (k *Kernel) openPath(p *Proc, dir, name string, flag int, perm uint32) (*File, error) {
	at, err := k.locate(p, dir, name)
	if err == ENOENT && flag&os.O_CREATE != 0 {
		if at.path, err = k.entry(p, dir, name); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil:
		return nil, err
	case at.proc:
		return k.openProc(at.path, flag)
	case at.isDir:
		return nil, EISDIR
	case at.path == TTYName && p != nil:
		if p.tty == nil {
			return nil, ENXIO
		}
		return newFile(p.tty), nil
	case at.info.Mode&fs.ModeCharDevice != 0:
		return newFile(device(at.path)), nil
	case at.info.Mode.Type() == fs.ModeNamedPipe:
		return k.openFIFO(p, at.path, flag)
	}
	h, err := k.FS.OpenFile(at.path, flag, fs.FileMode(perm))
	if err != nil {
		return nil, errno(err)
	}
	return newFile(&disk{k: k, handle: h, path: at.path, flag: flag}), nil
}

// openFIFO opens one side of a FIFO and waits for the other.
func (k *Kernel) openFIFO(p *Proc, name string, flag int) (*File, error) {
	k.mu.Lock()
	pipe := k.fifos[name]
	if pipe == nil {
		pipe = &Pipe{}
		k.fifos[name] = pipe
	}
	k.mu.Unlock()
	var f *File
	pipe.mu.Lock()
	mine, others, side := &pipe.readers, &pipe.writers, 0
	switch flag & accessMode {
	case os.O_RDONLY:
		f = newFile(&readEnd{pipe})
	case os.O_WRONLY:
		f = newFile(&writeEnd{pipe})
		mine, others, side = others, mine, 1
	default:
		pipe.mu.Unlock()
		return nil, EINVAL
	}
	*mine++
	pipe.opened[side]++
	pipe.notify()
	// The other side may have come and gone by the time that this one looks.
	for before := pipe.opened[1-side]; *others == 0 && pipe.opened[1-side] == before; {
		ch := pipe.wait()
		pipe.mu.Unlock()
		if err := p.pause(ch); err != nil {
			f.Close()
			return nil, err
		}
		pipe.mu.Lock()
	}
	pipe.mu.Unlock()
	return f, nil
}

// List returns the entries of a directory in the order of their names.
func (p *Proc) List(name string) ([]files.Info, error) {
	at, err := p.k.locate(p, p.dir, name)
	switch {
	case err != nil:
		return nil, err
	case !at.isDir:
		return nil, ENOTDIR
	case at.proc:
		return p.k.procList(at.path), nil
	}
	var out []files.Info
	for info, err := range p.k.FS.List(context.Background(), at.path) {
		if err != nil {
			return nil, errno(err)
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b files.Info) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Real returns the name of a file without links.
func (p *Proc) Real(name string) (string, error) {
	at, err := p.k.locate(p, p.dir, name)
	return at.path, err
}

// change runs do on the real name of an entry.
func (p *Proc) change(name string, do func(ctx context.Context, real string) error) error {
	if err := p.Check(); err != nil {
		return err
	}
	real, err := p.k.entry(p, p.dir, name)
	if err != nil {
		return err
	}
	err = do(context.Background(), real)
	if err != nil && errno(err) == EEXIST && strings.Contains(err.Error(), "not empty") {
		return ENOTEMP
	}
	return errno(err)
}

// Mkdir makes a directory.
func (p *Proc) Mkdir(name string) error {
	return p.change(name, func(ctx context.Context, real string) error {
		return p.k.FS.Mkdir(ctx, real, files.MkdirOptions{})
	})
}

// Remove removes a file, a link, a directory that is empty, or with all any one.
func (p *Proc) Remove(name string, all bool) error {
	return p.change(name, func(ctx context.Context, real string) error {
		return p.k.FS.Remove(ctx, real, files.RemoveOptions{Recursive: all})
	})
}

// Rename moves a file, over another one if there is one.
func (p *Proc) Rename(from, to string) error {
	target, err := p.k.entry(p, p.dir, to)
	if err != nil {
		return err
	}
	return p.change(from, func(ctx context.Context, real string) error {
		return p.k.FS.Rename(ctx, real, target, files.RenameOptions{Overwrite: true})
	})
}

// Symlink makes a symbolic link.
func (p *Proc) Symlink(target, name string) error {
	return p.change(name, func(_ context.Context, real string) error { return p.k.FS.Symlink(target, real) })
}

// Mkfifo makes a FIFO.
func (p *Proc) Mkfifo(name string) error {
	return p.change(name, func(_ context.Context, real string) error { return p.k.FS.Mkfifo(real) })
}

// Chmod sets the permission bits of a file, following a link.
func (p *Proc) Chmod(name string, mode uint32) error {
	at, err := p.k.locate(p, p.dir, name)
	if err != nil {
		return err
	}
	return errno(files.Chmod(context.Background(), p.k.FS, at.path, fs.FileMode(mode)))
}

// Touch sets the time of a file's last change to now, and makes one that is missing.
func (p *Proc) Touch(name string) error {
	f, err := p.Open(name, os.O_CREATE|os.O_WRONLY, 0o666)
	if err == EISDIR {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Release(f)
	if d, ok := f.file.(*disk); ok {
		d.handle.Touch(now())
	}
	return nil
}
