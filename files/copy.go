package files

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Copy copies oldname to newname as Copier says.
//
// Over an FS that is no Copier the bytes travel through the caller, a link is
// CodeUnsupported if it is no Symlinker, and a new directory 0755 if it is no Chmodder.
func Copy(ctx context.Context, fsys FS, oldname, newname string, o CopyOptions) error {
	if c, ok := fsys.(Copier); ok {
		return c.Copy(ctx, oldname, newname, o)
	}
	info, err := fsys.Stat(ctx, oldname, StatOptions{})
	if err != nil {
		return err
	}
	switch {
	case info.IsDir() && !o.Recursive:
		return &spec.Error{Path: oldname, Code: spec.CodeIsDirectory}
	case info.IsDir() && within(located(ctx, fsys, newname), located(ctx, fsys, oldname)):
		return &spec.Error{Path: newname, Code: spec.CodeInvalid, Err: errIntoItself}
	}
	c := copier{walker: walker{ctx: ctx, fsys: fsys}, o: o}
	return c.copy(oldname, newname, info)
}

var errIntoItself = errors.New("a directory cannot be copied into itself")

// located returns what name means: where its directory really is, as far as the FS
// can say that and it is there already.
func located(ctx context.Context, fsys FS, name string) string {
	for dir, rest := name, ""; ; dir = parent(dir) {
		abs, err := Resolve(ctx, fsys, dir)
		if err == nil {
			return path.Join(abs, rest)
		}
		if spec.CodeOf(err) != spec.CodeFileNotFound || dir == "." || dir == "/" {
			return path.Clean(name)
		}
		rest = path.Join(path.Base(dir), rest)
	}
}

// within reports whether name is dir or lies in it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// copier is one copy under way.
type copier struct {
	walker
	o CopyOptions
}

// copy copies what info describes.
func (c *copier) copy(from, to string, info Info) error {
	switch {
	case info.IsDir():
		return c.directory(from, to, info)
	case info.IsRegular():
		return c.file(from, to)
	case isLink(info):
		return MakeSymlink(c.ctx, c.fsys, info.Target, to, SymlinkOptions{Overwrite: c.o.Overwrite})
	}
	return &spec.Error{Path: from, Code: spec.CodeNotRegular}
}

func (c *copier) file(from, to string) error {
	f, err := c.fsys.Open(c.ctx, from, OpenOptions{NoFollow: true})
	if err != nil {
		return err
	}
	defer f.Close()
	info := f.Info()
	return c.fsys.Write(c.ctx, to, f, info.Size, WriteOptions{Mode: info.Mode.Perm(), SetMode: true, Exclusive: !c.o.Overwrite})
}

func (c *copier) directory(from, to string, info Info) error {
	made, err := c.makeDir(to)
	if err != nil {
		return err
	}
	entries, err := c.names(from, NamesOptions{NoFollow: true})
	if err != nil {
		return err
	}
	for _, e := range entries {
		c.held--
		info, err := c.fsys.Stat(c.ctx, join(from, e.name), StatOptions{})
		if err == nil {
			err = c.copy(join(from, e.name), join(to, e.name), info)
		}
		if err != nil {
			return err
		}
	}
	if !made {
		return nil
	}
	// Last, since the mode may forbid to write into it.
	err = Chmod(c.ctx, c.fsys, to, info.Mode.Perm())
	if spec.CodeOf(err) == spec.CodeUnsupported {
		return nil
	}
	return err
}

// makeDir makes the directory to, or takes the one that is there if it may.
func (c *copier) makeDir(to string) (made bool, err error) {
	err = c.fsys.Mkdir(c.ctx, to, MkdirOptions{})
	if spec.CodeOf(err) == spec.CodeFileNotFound {
		if err = c.fsys.Mkdir(c.ctx, parent(to), MkdirOptions{Parents: true}); err == nil {
			err = c.fsys.Mkdir(c.ctx, to, MkdirOptions{})
		}
	}
	if spec.CodeOf(err) != spec.CodeExists || !c.o.Overwrite {
		return err == nil, err
	}
	info, err := c.fsys.Stat(c.ctx, to, StatOptions{Follow: true})
	if err == nil && !info.IsDir() {
		err = &spec.Error{Path: to, Code: spec.CodeNotDirectory}
	}
	return false, err
}
