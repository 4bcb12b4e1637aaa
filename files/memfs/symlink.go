package memfs

import (
	"context"
	"io"
	"io/fs"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

var _ files.Symlinker = (*FS)(nil)

// MakeSymlink implements files.Symlinker.
func (f *FS) MakeSymlink(ctx context.Context, target, name string, o files.SymlinkOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.ValidatePath(target); err != nil {
		return fail(name, spec.New(spec.CodeInvalid, "no target of a link"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p, _, err := f.replaceable(name, files.WriteOptions{Exclusive: !o.Overwrite})
	if err != nil {
		return fail(name, err)
	}
	f.set(p.dir, p.base, &node{mode: fs.ModeSymlink | 0o777, modTime: time.Now(), target: target})
	return nil
}

// OpenRoot implements tree.Rooter. Closing what it returns does nothing.
func (f *FS) OpenRoot(ctx context.Context, dir string) (files.FS, io.Closer, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.existing(dir, true)
	if err == nil && !n.isDir() {
		err = errCode(spec.CodeNotDirectory)
	}
	if err != nil {
		return nil, nil, fail(dir, err)
	}
	return &FS{workdir: "/", mu: f.mu, root: n, strict: true, watches: f.watches}, io.NopCloser(nil), nil
}
