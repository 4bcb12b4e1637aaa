package localfs

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
	"github.com/berth-dev/berth/spec"
)

// pair is a directory that is copied and the one that it is copied to.
type pair struct {
	from, to *level
	read     bool   // all of from's names are in pending
	mode     uint32 // what the new directory gets in the end
	made     bool   // it is new
}

// next returns the name of the next entry; "": there is none.
func (p *pair) next() (string, error) {
	if len(p.from.pending) == 0 && !p.read {
		names, err := p.from.dir.Readdirnames(batch)
		if err == io.EOF {
			p.read = true
		} else if err != nil {
			return "", err
		}
		p.from.pending = names
	}
	if len(p.from.pending) == 0 {
		return "", nil
	}
	name := p.from.pending[0]
	p.from.pending = p.from.pending[1:]
	return name, nil
}

// park closes both directories until the copy comes back to them. What is still to be
// read is read now: an open directory knows where it stands, a reopened one does not.
func (p *pair) park() error {
	if !p.read {
		rest, err := p.from.dir.Readdirnames(-1)
		if err != nil {
			return err
		}
		p.from.pending, p.read = append(p.from.pending, rest...), true
	}
	p.from.close()
	p.to.close()
	return nil
}

func (l *level) close() {
	if l.dir != nil {
		l.dir.Close()
		l.dir = nil
	}
}

// tree copies a directory and all in it. Neither the depth nor the width of what it
// copies costs more than maxHeld pairs of descriptors, and the names in directories
// that lie deeper.
func (c *copier) tree(from, to target) error {
	var stack []*pair
	defer func() {
		for _, p := range stack {
			p.from.close()
			p.to.close()
		}
	}()
	top, err := c.enter(from, to)
	if err != nil {
		return err
	}
	stack, c.below = append(stack, top), []string{""}
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		below, err := c.copyNext(p, top)
		switch {
		case err != nil:
			return err
		case below != nil:
			stack, c.below = append(stack, below), append(c.below, below.from.name)
			if len(stack) > maxHeld {
				if err := stack[len(stack)-1-maxHeld].park(); err != nil {
					return fail(c.oldname, reading, err)
				}
			}
			continue
		}
		if err := c.leave(p, stack); err != nil {
			return err
		}
		stack, c.below = stack[:len(stack)-1], c.below[:len(c.below)-1]
	}
	return nil
}

// leave finishes the directory that is the last of the stack and goes back to the one
// above.
func (c *copier) leave(p *pair, stack []*pair) error {
	if len(stack) > 1 {
		up := stack[len(stack)-2]
		if err := up.from.reenter(p.from.fd()); err != nil {
			return fail(c.oldname, reading, err)
		}
		if err := up.to.reenter(p.to.fd()); err != nil {
			return fail(c.newname, changing, err)
		}
	}
	if p.made && p.mode != dirMode {
		if err := sys.Retry(func() error { return unix.Fchmod(p.to.fd(), p.mode) }); err != nil {
			return fail(c.newname, changing, err)
		}
	}
	p.from.close()
	p.to.close()
	return nil
}

// enter opens the directory from and makes to, or takes the one that is there.
func (c *copier) enter(from, to target) (*pair, error) {
	p := &pair{}
	var err error
	if p.from, err = openLevel(from.dir, from.base); err != nil {
		return nil, fail(c.source(from.base), reading, err)
	}
	p.mode = p.from.id.Mode & 0o777
	if p.made, err = c.makeDir(to); err == nil {
		p.to, err = openLevel(to.dir, to.base)
	}
	if err == nil && sys.SameFile(&p.from.id, &p.to.id) {
		p.to.close()
		err = spec.New(spec.CodeInvalid, "a directory cannot be copied into itself")
	}
	if err != nil {
		p.from.close()
		return nil, fail(c.dest(to.base), changing, err)
	}
	return p, nil
}

// makeDir makes a directory, or finds it there and may use it.
func (c *copier) makeDir(to target) (made bool, err error) {
	err = unix.EEXIST
	if to.base != "" {
		err = mkdir(to.dir, to.base, makeMissing)
	}
	if err != unix.EEXIST || !c.o.Overwrite {
		return err == nil, err
	}
	st, err := sys.Lstat(to.dir, to.base)
	if err == nil && !sys.IsType(&st, unix.S_IFDIR) {
		err = unix.ENOTDIR
	}
	return false, err
}

// openLevel opens a directory; name "": dir itself.
func openLevel(dir int, name string) (*level, error) {
	if name == "" {
		name = "."
	}
	return enter(dir, name)
}

// copyNext copies entries until none is left (nil), or one is a directory to be
// entered. An entry that is gone is passed over.
func (c *copier) copyNext(p, top *pair) (*pair, error) {
	for {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		name, err := p.next()
		if err != nil {
			return nil, fail(c.oldname, reading, err)
		}
		if name == "" {
			return nil, nil
		}
		from, to := target{dir: p.from.fd(), base: name}, target{dir: p.to.fd(), base: name}
		st, err := sys.Lstat(from.dir, name)
		switch {
		case err == unix.ENOENT:
			continue
		case err != nil:
		case sys.IsType(&st, unix.S_IFDIR) && sys.SameFile(&st, &top.to.id):
			err = spec.New(spec.CodeInvalid, "a directory cannot be copied into itself")
		case sys.IsType(&st, unix.S_IFDIR):
			return c.enter(from, to)
		case !sys.IsType(&st, unix.S_IFREG) && !sys.IsType(&st, unix.S_IFLNK):
			err = regular("", &st)
		default:
			if err := c.entry(from, to, &st); err != nil {
				return nil, err
			}
			continue
		}
		return nil, fail(c.source(name), reading, err)
	}
}
