package memfs

import (
	"bytes"
	"context"
	"io/fs"
	"iter"
	"maps"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/spec"
)

var (
	_ files.Chmodder    = (*FS)(nil)
	_ files.Copier      = (*FS)(nil)
	_ files.BatchWriter = (*FS)(nil)
	_ files.Namer       = (*FS)(nil)
	_ files.Resolver    = (*FS)(nil)
)

// Chmod implements files.Chmodder.
func (f *FS) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if mode&^fs.ModePerm != 0 {
		return fail(name, spec.New(spec.CodeInvalid, "a mode of more than nine bits"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.existing(name, true)
	if err != nil {
		return fail(name, err)
	}
	n.mode = n.mode&^fs.ModePerm | mode
	f.tell(files.WatchMode, n)
	return nil
}

// Names implements files.Namer.
func (f *FS) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		entries, err := f.entries(ctx, dir, !o.NoFollow)
		if err != nil {
			yield(files.Info{}, err)
			return
		}
		for _, info := range entries {
			if err := ctx.Err(); err != nil {
				yield(files.Info{}, err)
				return
			}
			if !yield(files.Info{Name: info.Name, Mode: info.Mode.Type()}, nil) {
				return
			}
		}
	}
}

// Resolve implements files.Resolver.
func (f *FS) Resolve(ctx context.Context, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	abs, err := f.absolute(name)
	if err != nil {
		return "", fail(name, err)
	}
	w := f.walker(false)
	p, err := w.locate(f.root, abs)
	for err == nil && p.node != nil && p.node.isLink() {
		slash := p.slash
		if w.links--; w.links < 0 {
			return "", fail(name, errCode(spec.CodeInvalidPath))
		}
		p, err = w.locate(p.dir, p.node.target)
		p.slash = p.slash || slash
	}
	if err == nil {
		_, err = w.finish(p, false)
	}
	if err != nil {
		return "", fail(name, err)
	}
	return p.node.path(), nil
}

// path returns the absolute name of a file.
func (n *node) path() string {
	if n == n.parent {
		return "/"
	}
	var path string
	for ; n != n.parent; n = n.parent {
		path = "/" + n.name + path
	}
	return path
}

// Copy implements files.Copier. It is atomic as a whole.
func (f *FS) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := f.entry(oldname)
	switch {
	case err != nil:
		return fail(oldname, err)
	case from.node == nil:
		return fail(oldname, errCode(spec.CodeFileNotFound))
	case from.slash && !from.node.isDir():
		return fail(oldname, errCode(spec.CodeNotDirectory))
	case from.node.isDir() && !o.Recursive:
		return fail(oldname, errCode(spec.CodeIsDirectory))
	}
	if err := copyable(from.node); err != nil {
		return fail(oldname, err)
	}
	to, err := f.locate(newname, true)
	if err != nil {
		return fail(newname, err)
	}
	if from.node.isDir() && (to.dir.within(from.node) || to.node == from.node) {
		return fail(newname, spec.New(spec.CodeInvalid, "a directory cannot be copied into itself"))
	}
	return fail(newname, f.copyTo(from.node, to, o.Overwrite))
}

// copyable refuses a tree with a file in it that is no file, directory or link.
func copyable(n *node) error {
	if !n.isDir() && !n.isLink() && !n.mode.IsRegular() {
		return errCode(spec.CodeNotRegular)
	}
	for _, child := range n.entries {
		if err := copyable(child); err != nil {
			return err
		}
	}
	return nil
}

// copyTo makes a copy of n at to.
func (f *FS) copyTo(n *node, to spot, overwrite bool) error {
	over := to.node
	switch {
	case over != nil && !overwrite:
		return errCode(spec.CodeExists)
	case !n.isDir():
		if err := f.mayTake(to); err != nil {
			return err
		}
		f.set(to.dir, to.base, n.clone())
		return nil
	case over == nil:
		over = newDir()
		over.mode = n.mode
		f.set(to.dir, to.base, over)
	case over.isLink():
		dest, err := f.walker(false).follow(to.dir, over)
		if err != nil || !dest.isDir() {
			return errCode(spec.CodeNotDirectory)
		}
		over = dest
	case !over.isDir():
		return errCode(spec.CodeNotDirectory)
	}
	for name, child := range maps.Clone(n.entries) {
		if err := f.copyTo(child, spot{dir: over, base: name, node: over.entries[name]}, overwrite); err != nil {
			return err
		}
	}
	return nil
}

// mayTake says what stops a file or link from taking the entry at to.
func (f *FS) mayTake(to spot) error {
	switch n := to.node; {
	case n == nil && to.slash:
		return errCode(spec.CodeIsDirectory)
	case n != nil && to.slash && !n.isDir():
		return errCode(spec.CodeNotDirectory)
	case n == nil || n.mode.IsRegular():
		return nil
	case n.isDir():
		return errCode(spec.CodeIsDirectory)
	case n.isLink():
		if dest, err := f.walker(false).follow(to.dir, n); err == nil && dest.isDir() {
			return errCode(spec.CodeIsDirectory)
		}
		return nil
	}
	return errCode(spec.CodeNotReplaceable)
}

// clone returns a file or link that is another one than n and the same otherwise.
func (n *node) clone() *node {
	return &node{mode: n.mode, modTime: time.Now(), data: n.data, target: n.target}
}

// WriteBatch implements files.BatchWriter.
func (f *FS) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], _ files.BatchOptions) (int, error) {
	type staged struct {
		file files.BatchFile
		data []byte
	}
	var all []staged
	for file, err := range next {
		if err != nil {
			return 0, err
		}
		data, err := f.stage(ctx, file)
		if err != nil {
			return 0, fail(file.Name, err)
		}
		all = append(all, staged{file, data})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range all {
		if err := ctx.Err(); err != nil {
			return i, fail(s.file.Name, err)
		}
		p, mode, err := f.replaceable(s.file.Name, files.WriteOptions{Mode: s.file.Mode})
		if err != nil {
			return i, fail(s.file.Name, err)
		}
		f.set(p.dir, p.base, &node{mode: mode, modTime: time.Now(), data: s.data})
	}
	return len(all), nil
}

// stage takes the content of file, and makes the directories that it needs.
func (f *FS) stage(ctx context.Context, file files.BatchFile) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if file.Size < 0 {
		return nil, spec.New(spec.CodeInvalid, "a negative size")
	}
	f.mu.Lock()
	_, err := f.entryBelow(file.Name)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	_, err = source.Copy(ctx, &data, file.Src, file.Size)
	return data.Bytes(), err
}

// entryBelow is entry, and makes the directories that are missing.
func (f *FS) entryBelow(name string) (spot, error) {
	p, err := f.locate(name, true)
	if err == nil && p.base == "" {
		err = errCode(spec.CodeIsDirectory)
	}
	return p, err
}
