package remotefs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// fileSystem is the files of one place.
type fileSystem struct{ s ask.Session }

// New returns the files of the place that s is a session of.
func New(s ask.Session) files.FS { return fileSystem{s} }

var (
	_ files.FS          = fileSystem{}
	_ files.Chmodder    = fileSystem{}
	_ files.Copier      = fileSystem{}
	_ files.Globber     = fileSystem{}
	_ files.Grepper     = fileSystem{}
	_ files.BatchWriter = fileSystem{}
	_ files.Resolver    = fileSystem{}
	_ files.Symlinker   = fileSystem{}
	_ files.Watcher     = fileSystem{}
)

// Stat implements files.FS.
func (f fileSystem) Stat(ctx context.Context, name string, o files.StatOptions) (files.Info, error) {
	if err := spec.ValidatePath(name); err != nil {
		return files.Info{}, at(err, name)
	}
	reply, err := f.s.Call(ctx, fileRequest(wire.OpStat, wire.FileRequest{Name: wire.Bytes(name), Follow: o.Follow}), false)
	if err != nil {
		return files.Info{}, at(err, name)
	}
	info, err := infoOf(reply)
	return info, at(err, name)
}

// Mkdir implements files.FS.
func (f fileSystem) Mkdir(ctx context.Context, name string, o files.MkdirOptions) error {
	return f.change(ctx, wire.OpMkdir, wire.FileRequest{Name: wire.Bytes(name), Parents: o.Parents})
}

// Remove implements files.FS.
func (f fileSystem) Remove(ctx context.Context, name string, o files.RemoveOptions) error {
	return f.change(ctx, wire.OpRemove, wire.FileRequest{Name: wire.Bytes(name), Recursive: o.Recursive})
}

// Rename implements files.FS.
func (f fileSystem) Rename(ctx context.Context, oldname, newname string, o files.RenameOptions) error {
	if err := spec.ValidatePath(newname); err != nil {
		return at(err, newname)
	}
	return f.change(ctx, wire.OpRename, wire.FileRequest{Name: wire.Bytes(oldname), NewName: wire.Bytes(newname), Overwrite: o.Overwrite})
}

// Chmod implements files.Chmodder.
func (f fileSystem) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if mode&^fs.ModePerm != 0 {
		return at(spec.New(spec.CodeInvalid, "more than the nine permission bits"), name)
	}
	return f.change(ctx, wire.OpChmod, wire.FileRequest{Name: wire.Bytes(name), Mode: int64(mode)})
}

// Copy implements files.Copier.
func (f fileSystem) Copy(ctx context.Context, oldname, newname string, o files.CopyOptions) error {
	if err := spec.ValidatePath(newname); err != nil {
		return at(err, newname)
	}
	return f.change(ctx, wire.OpCopy, wire.FileRequest{Name: wire.Bytes(oldname), NewName: wire.Bytes(newname), Overwrite: o.Overwrite, Recursive: o.Recursive})
}

// MakeSymlink implements files.Symlinker.
func (f fileSystem) MakeSymlink(ctx context.Context, target, name string, o files.SymlinkOptions) error {
	if spec.ValidatePath(target) != nil {
		return at(spec.New(spec.CodeInvalid, "no target of a link"), name)
	}
	return f.change(ctx, wire.OpSymlink, wire.FileRequest{Name: wire.Bytes(name), Target: wire.Bytes(target), Overwrite: o.Overwrite})
}

// Resolve implements files.Resolver.
func (f fileSystem) Resolve(ctx context.Context, name string) (string, error) {
	if err := spec.ValidatePath(name); err != nil {
		return "", at(err, name)
	}
	reply, err := f.s.Call(ctx, fileRequest(wire.OpResolve, wire.FileRequest{Name: wire.Bytes(name)}), false)
	if err != nil {
		return "", at(err, name)
	}
	where := string(reply.Name)
	if spec.ValidatePath(where) != nil || !strings.HasPrefix(where, "/") || path.Clean(where) != where {
		return "", at(ask.Violation("a name that leads to %.64q", where), name)
	}
	return where, nil
}

// change makes a request that changes the place's files and has a bare reply.
func (f fileSystem) change(ctx context.Context, op wire.Op, r wire.FileRequest) error {
	if err := spec.ValidatePath(string(r.Name)); err != nil {
		return at(err, string(r.Name))
	}
	_, err := f.s.Call(ctx, fileRequest(op, r), true)
	return at(err, string(r.Name), string(r.NewName))
}

// List implements files.FS. A listing that breaks off after its first entry is not
// begun again: it is CodeUnavailable.
func (f fileSystem) List(ctx context.Context, dir string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		if err := spec.ValidatePath(dir); err != nil {
			yield(files.Info{}, at(err, dir))
			return
		}
		more, err := f.list(ctx, dir, yield)
		if more && f.s.Repeatable(err) {
			_, err = f.list(ctx, dir, yield)
		}
		if err != nil {
			yield(files.Info{}, at(err, dir))
		}
	}
}

// list yields the entries of one request. fresh: none has been yielded. After the
// consumer has broken off err is nil.
func (f fileSystem) list(ctx context.Context, dir string, yield func(files.Info, error) bool) (fresh bool, err error) {
	fresh = true
	st, err := f.s.Open(ctx, fileRequest(wire.OpList, wire.FileRequest{Name: wire.Bytes(dir)}), false)
	if err != nil {
		return fresh, err
	}
	defer st.End()
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return fresh, st.Failed(ctx, err, false)
		}
		if len(reply.Entries) == 0 && !reply.Done {
			return fresh, ask.Violation("a list reply without entries")
		}
		for i := range reply.Entries {
			info, err := reply.Entries[i].Files()
			if err != nil {
				return fresh, &spec.Error{Code: spec.CodeInternal, Err: err}
			}
			fresh = false
			if !yield(info, nil) {
				return fresh, nil
			}
		}
		if reply.Done {
			return fresh, nil
		}
	}
}

// Open implements files.FS. ctx bounds the life of the File.
func (f fileSystem) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	if err := spec.ValidatePath(name); err != nil {
		return nil, at(err, name)
	}
	if o.Offset < 0 || o.Length < 0 || o.MaxBytes < 0 {
		return nil, at(spec.New(spec.CodeInvalid, "a negative offset, length or limit"), name)
	}
	file, err := f.open(ctx, name, o)
	if f.s.Repeatable(err) {
		file, err = f.open(ctx, name, o)
	}
	if err != nil {
		return nil, at(err, name)
	}
	return file, nil
}

func (f fileSystem) open(ctx context.Context, name string, o files.OpenOptions) (*file, error) {
	st, err := f.s.Open(ctx, fileRequest(wire.OpOpen, wire.FileRequest{
		Name: wire.Bytes(name), Offset: o.Offset, Length: o.Length, MaxBytes: o.MaxBytes, NoFollow: o.NoFollow,
	}), false)
	if err != nil {
		return nil, err
	}
	reply, err := wire.ReadReply(st)
	if err != nil {
		st.End()
		return nil, st.Failed(ctx, err, false)
	}
	info, err := infoOf(reply)
	if err == nil && !info.IsRegular() {
		err = ask.Violation("it opened what is no regular file")
	}
	if err == nil && o.MaxBytes > 0 && info.Size > o.MaxBytes {
		err = spec.New(spec.CodeTooLarge, "the file is over the limit")
	}
	if err != nil {
		st.End()
		return nil, err
	}
	left := max(info.Size-o.Offset, 0)
	if o.Length > 0 {
		left = min(left, o.Length)
	}
	return &file{ctx: ctx, st: st, data: wire.NewDataReader(st), name: name, info: info, left: left}, nil
}

// file is an open file. It checks that it gets what its Info promises.
type file struct {
	ctx  context.Context // Open's, which bounds the file's life
	st   ask.Stream
	data *wire.DataReader
	name string
	info files.Info
	left int64
	err  error
}

// Info implements files.File.
func (f *file) Info() files.Info { return f.info }

func (f *file) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.data.Read(p)
	if int64(n) > f.left {
		n, err = int(f.left), ask.Violation("the file is longer than the guest said")
	}
	f.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF && f.left > 0:
		err = spec.New(spec.CodeUnavailable, "the file shrank while it was read")
	case err != io.EOF:
		err = f.st.Failed(f.ctx, err, false)
	}
	f.err = at(err, f.name)
	return n, f.err
}

func (f *file) Close() error {
	f.st.End()
	return nil
}

func fileRequest(op wire.Op, r wire.FileRequest) *wire.Request {
	return &wire.Request{Op: op, File: &r}
}

func infoOf(r *wire.Reply) (files.Info, error) {
	if r.Info == nil {
		return files.Info{}, ask.Violation("a reply without the file's record")
	}
	info, err := r.Info.Files()
	if err != nil {
		return files.Info{}, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	return info, nil
}

// at names the path that err is about: one of those that the caller gave, the first
// unless the guest says another. What else the guest may have put there is dropped.
func at(err error, paths ...string) error {
	var e *spec.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	c := *e
	for _, p := range paths {
		if p == c.Path {
			return &c
		}
	}
	c.Path = paths[0]
	return &c
}
