package fake

import (
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files"
)

// fileSystem is the files of a place as one session reaches them: all that memfs does,
// after what every request goes through.
type fileSystem struct{ s *session }

var (
	_ files.FS          = (*fileSystem)(nil)
	_ files.Chmodder    = (*fileSystem)(nil)
	_ files.Copier      = (*fileSystem)(nil)
	_ files.Globber     = (*fileSystem)(nil)
	_ files.Grepper     = (*fileSystem)(nil)
	_ files.BatchWriter = (*fileSystem)(nil)
	_ files.Namer       = (*fileSystem)(nil)
	_ files.Resolver    = (*fileSystem)(nil)
)

func (f *fileSystem) do(ctx context.Context, op Op, name string, do func() error) error {
	return f.s.do(ctx, Request{Op: op, Path: name}, do)
}

// each yields a sequence after what every request goes through.
func each[T any](ctx context.Context, f *fileSystem, op Op, name string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := f.do(ctx, op, name, func() error { return nil }); err != nil {
			var none T
			yield(none, err)
			return
		}
		seq(yield)
	}
}

func (f *fileSystem) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	var out files.File
	err := f.do(ctx, OpOpen, name, func() (err error) {
		out, err = f.s.p.fs.Open(ctx, name, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (f *fileSystem) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	return f.do(ctx, OpWrite, name, func() error {
		bill := f.s.p.disk.Bill()
		err := f.s.p.fs.Write(ctx, name, bill.Charge(src), size, o)
		if err != nil {
			bill.Refund()
		}
		return err
	})
}

func (f *fileSystem) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	var out files.Info
	err := f.do(ctx, OpStat, name, func() (err error) {
		out, err = f.s.p.fs.Stat(ctx, name, o)
		return err
	})
	return out, err
}

func (f *fileSystem) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return each(ctx, f, OpList, dir, f.s.p.fs.List(ctx, dir))
}

func (f *fileSystem) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return each(ctx, f, OpList, dir, files.Names(ctx, f.s.p.fs, dir, o))
}

func (f *fileSystem) Resolve(ctx context.Context, name string) (string, error) {
	var out string
	err := f.do(ctx, OpStat, name, func() (err error) {
		out, err = files.Resolve(ctx, f.s.p.fs, name)
		return err
	})
	return out, err
}

func (f *fileSystem) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	return f.do(ctx, OpMkdir, name, func() error { return f.s.p.fs.Mkdir(ctx, name, o) })
}

func (f *fileSystem) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	return f.do(ctx, OpRemove, name, func() error { return f.s.p.fs.Remove(ctx, name, o) })
}

func (f *fileSystem) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	return f.do(ctx, OpRename, oldname, func() error { return f.s.p.fs.Rename(ctx, oldname, newname, o) })
}

func (f *fileSystem) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return f.do(ctx, OpChmod, name, func() error { return files.Chmod(ctx, f.s.p.fs, name, mode) })
}

func (f *fileSystem) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	return f.do(ctx, OpCopy, oldname, func() error { return files.Copy(ctx, f.s.p.fs, oldname, newname, o) })
}

func (f *fileSystem) Glob(ctx context.Context, o files.GlobOptions) iter.Seq2[files.Match, error] {
	return each(ctx, f, OpGlob, o.Dir, files.Glob(ctx, f.s.p.fs, o))
}

func (f *fileSystem) Grep(ctx context.Context, o files.GrepOptions) iter.Seq2[files.Line, error] {
	return each(ctx, f, OpGrep, o.Files.Dir, files.Grep(ctx, f.s.p.fs, o))
}

func (f *fileSystem) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	n := 0
	err := f.do(ctx, OpBatch, "", func() (err error) {
		all := f.s.p.disk.Bill()
		n, err = files.WriteBatch(ctx, f.s.p.fs, func(yield func(files.BatchFile, error) bool) {
			for file, err := range next {
				if file.Src != nil {
					file.Src = all.Charge(file.Src)
				}
				if !yield(file, err) {
					return
				}
			}
		}, o)
		if err != nil && n == 0 {
			all.Refund()
		}
		return err
	})
	return n, err
}
