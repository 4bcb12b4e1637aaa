package memfs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/spec"
)

// Write implements files.FS.
func (f *FS) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return fail(name, err)
	}
	switch {
	case o.AnySize:
		size = -1
	case size < 0:
		return fail(name, spec.New(spec.CodeInvalid, "a negative size"))
	}
	f.mu.Lock()
	_, _, err := f.replaceable(name, o)
	f.mu.Unlock()
	if err != nil {
		return fail(name, err)
	}
	var data bytes.Buffer
	if _, err := source.Copy(ctx, &data, src, size); err != nil {
		return fail(name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, mode, err := f.replaceable(name, o) // the tree may be another one by now
	if err != nil {
		return fail(name, err)
	}
	if o.IfSHA256 != "" {
		if err := p.node.holds(o.IfSHA256); err != nil {
			return fail(name, err)
		}
	}
	f.set(p.dir, p.base, &node{mode: mode, modTime: time.Now(), data: data.Bytes()})
	return nil
}

// holds checks what a file must hold for a write to be made.
func (n *node) holds(sha256Hex string) error {
	switch {
	case n == nil:
		return errCode(spec.CodeFileNotFound)
	case !n.mode.IsRegular():
		return spec.New(spec.CodeExists, "it is no regular file")
	}
	if sum := sha256.Sum256(n.data); !strings.EqualFold(hex.EncodeToString(sum[:]), sha256Hex) {
		return spec.New(spec.CodeExists, "the file does not hold what was expected")
	}
	return nil
}

// replaceable finds the entry that a regular file is to take, and its mode.
func (f *FS) replaceable(name string, o files.WriteOptions) (spot, fs.FileMode, error) {
	mode := o.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	p, err := f.locate(name, !o.NoParents)
	if err != nil {
		return p, 0, err
	}
	n := p.node
	switch {
	case n == nil && p.slash:
		return p, 0, errCode(spec.CodeIsDirectory)
	case n == nil:
		return p, mode, nil
	case o.Exclusive && p.base != "":
		return p, 0, errCode(spec.CodeExists)
	case n.isLink():
		if dest, err := f.walker(false).follow(p.dir, n); err == nil && dest.isDir() {
			return p, 0, errCode(spec.CodeIsDirectory)
		}
	case n.isDir():
		return p, 0, errCode(spec.CodeIsDirectory)
	case !n.mode.IsRegular():
		return p, 0, errCode(spec.CodeNotReplaceable)
	case !o.SetMode:
		mode = n.mode.Perm()
	}
	if p.slash {
		return p, 0, errCode(spec.CodeNotDirectory)
	}
	return p, mode, nil
}

// Mkdir implements files.FS.
func (f *FS) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Parents {
		abs, err := f.absolute(name)
		if err == nil {
			_, err = f.directory(abs, true)
		}
		return fail(name, err)
	}
	p, err := f.locate(name, false)
	switch {
	case err != nil:
		return fail(name, err)
	case p.node != nil:
		return fail(name, errCode(spec.CodeExists))
	}
	f.set(p.dir, p.base, newDir())
	return nil
}

// Remove implements files.FS.
func (f *FS) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.entry(name)
	switch {
	case err != nil:
		return fail(name, err)
	case p.node == nil:
		return fail(name, errCode(spec.CodeFileNotFound))
	case p.slash && !p.node.isDir():
		return fail(name, errCode(spec.CodeNotDirectory))
	case len(p.node.entries) > 0 && !o.Recursive:
		return fail(name, spec.New(spec.CodeExists, "the directory is not empty"))
	}
	f.tell(files.WatchRemoved, p.node)
	f.lose(p.node)
	p.node.unlink()
	return nil
}

// Rename implements files.FS.
func (f *FS) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := f.entry(oldname)
	if err != nil {
		return fail(oldname, err)
	}
	to, err := f.entry(newname)
	if err != nil {
		return fail(newname, err)
	}
	moved, over := from.node, to.node
	switch {
	case moved == nil:
		return fail(oldname, errCode(spec.CodeFileNotFound))
	case from.slash && !moved.isDir():
		return fail(oldname, errCode(spec.CodeNotDirectory))
	case to.slash && !moved.isDir():
		return fail(newname, errCode(spec.CodeNotDirectory))
	case over != nil && !o.Overwrite:
		return fail(newname, errCode(spec.CodeExists))
	case moved == over:
		return nil
	case moved.isDir() && to.dir.within(moved):
		return fail(newname, spec.New(spec.CodeInvalid, "a directory cannot move into itself"))
	}
	if err := moved.mayReplace(over); err != nil {
		return fail(newname, err)
	}
	f.unset(to.dir, to.base)
	moved.unlink()
	to.dir.link(to.base, moved)
	f.tellMoved(from, moved)
	return nil
}

// within reports whether n is dir or lies under it.
func (n *node) within(dir *node) bool {
	for ; n != dir; n = n.parent {
		if n == nil || n == n.parent {
			return false
		}
	}
	return true
}

// mayReplace says what stops a rename of n over another node, which may be nil.
func (n *node) mayReplace(over *node) error {
	switch {
	case over == nil || !n.isDir() && !over.isDir():
		return nil
	case !over.isDir():
		return errCode(spec.CodeNotDirectory)
	case !n.isDir():
		return errCode(spec.CodeIsDirectory)
	case len(over.entries) > 0:
		return spec.New(spec.CodeExists, "the directory is not empty")
	}
	return nil
}
