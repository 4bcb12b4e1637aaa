//go:build linux

package agent

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// file serves one operation on files. What it returns is sent to the host; what
// the host is still sending is read by the caller, after that.
func (cl *client) file(s *wire.Stream, req *wire.Request) error {
	serve := cl.fileOp(req.Op)
	if serve == nil {
		return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("this guest does not know the operation")}
	}
	if req.File == nil {
		return errIncomplete
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if req.Op != wire.OpWrite { // whose own reading notices a host that leaves
		go func() {
			stream.Discard(s)
			cancel()
			stream.Abort(s)
		}()
	}
	return serve(ctx, s, req.File)
}

type fileOp func(context.Context, *wire.Stream, *wire.FileRequest) error

func (cl *client) fileOp(op wire.Op) fileOp {
	fsys := cl.agent.files
	simple := func(do func(context.Context, *wire.FileRequest) error) fileOp {
		return func(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
			if err := do(ctx, r); err != nil {
				return err
			}
			return reply(s, &wire.Reply{})
		}
	}
	switch op {
	case wire.OpOpen:
		return cl.openFile
	case wire.OpList:
		return cl.listFiles
	case wire.OpStat:
		return func(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
			info, err := fsys.Stat(ctx, string(r.Name), files.StatOptions{Follow: r.Follow})
			if err != nil {
				return err
			}
			sent := wire.FromInfo(info)
			return reply(s, &wire.Reply{Info: &sent})
		}
	case wire.OpWrite:
		return func(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
			err := fsys.Write(ctx, string(r.Name), wire.NewDataReader(s), r.Size, files.WriteOptions{
				Mode: fs.FileMode(r.Mode) & fs.ModePerm, SetMode: r.SetMode, NoParents: r.NoParents,
				Exclusive: r.Exclusive, Sync: r.Sync, AnySize: r.AnySize,
			})
			if err != nil {
				return err
			}
			return reply(s, &wire.Reply{})
		}
	case wire.OpMkdir:
		return simple(func(ctx context.Context, r *wire.FileRequest) error {
			return fsys.Mkdir(ctx, string(r.Name), files.MkdirOptions{Parents: r.Parents})
		})
	case wire.OpRemove:
		return simple(func(ctx context.Context, r *wire.FileRequest) error {
			return fsys.Remove(ctx, string(r.Name), files.RemoveOptions{Recursive: r.Recursive})
		})
	case wire.OpRename:
		return simple(func(ctx context.Context, r *wire.FileRequest) error {
			return fsys.Rename(ctx, string(r.Name), string(r.NewName), files.RenameOptions{Overwrite: r.Overwrite})
		})
	}
	return nil
}

// openFile sends what the file is, its bytes and their end. An error among the
// bytes takes the place of the end.
func (cl *client) openFile(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	f, err := cl.agent.files.Open(ctx, string(r.Name), files.OpenOptions{Offset: r.Offset, Length: r.Length, MaxBytes: r.MaxBytes, NoFollow: r.NoFollow})
	if err != nil {
		return err
	}
	defer f.Close()
	info := wire.FromInfo(f.Info())
	if err := reply(s, &wire.Reply{Info: &info}); err != nil {
		return err
	}
	buf := cl.agent.buffers.Get()
	defer cl.agent.buffers.Put(buf)
	for {
		n, err := f.Read(buf[:])
		if _, werr := wire.WriteData(s, buf[:n], cl.profile.ChunkBytes); werr != nil {
			return stream.ErrGone
		}
		switch {
		case err == io.EOF:
			if wire.WriteEnd(s) != nil {
				return stream.ErrGone
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// listBytes is about how much one reply of a listing carries.
const listBytes = 128 << 10

// listFiles sends the entries of a directory in batches.
func (cl *client) listFiles(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	var batch []wire.FileInfo
	size := 0
	for info, err := range cl.agent.files.List(ctx, string(r.Name)) {
		if err != nil {
			return err
		}
		if len(batch) == wire.ListBatch || size > listBytes {
			if err := reply(s, &wire.Reply{Entries: batch}); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
		batch = append(batch, wire.FromInfo(info))
		const fixed = 160 // numbers and names of fields
		size += fixed + 2*(len(info.Name)+len(info.Target))
	}
	return reply(s, &wire.Reply{Entries: batch, Done: true})
}
