//go:build linux

package fileserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Server serves the files of a place over one connection.
type Server struct {
	Files   files.FS
	Buffers *stream.Buffers
	// ChunkBytes is the largest data frame that the host wants.
	ChunkBytes int
	// Tell is told of what has changed.
	Tell func(wire.PlaceEvent)
	// Watches counts the watches of the whole place.
	Watches *Watches
}

// Serve serves one operation on files. What it returns is for the host; what the host
// is still sending is read by the caller, after that.
func (v *Server) Serve(s *wire.Stream, req *wire.Request) error {
	serve := v.fileOp(req)
	if serve == nil {
		return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("this guest does not know the operation")}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if req.Op != wire.OpWrite && req.Op != wire.OpBatch && req.Op != wire.OpImport { // whose own reading notices a host that leaves
		go func() {
			stream.Discard(s)
			cancel()
			stream.Abort(s)
		}()
	}
	return serve(ctx, s)
}

// fileOp serves one request, on its stream.
type fileOp func(context.Context, *wire.Stream) error

// incomplete serves a request without the part that belongs to its operation.
func incomplete(context.Context, *wire.Stream) error { return stream.ErrIncomplete }

// fileOp returns what serves req; nil: nothing does.
func (v *Server) fileOp(req *wire.Request) fileOp {
	switch req.Op {
	case wire.OpGlob:
		if req.Glob == nil {
			return incomplete
		}
		return func(ctx context.Context, s *wire.Stream) error { return v.glob(ctx, s, req.Glob) }
	case wire.OpGrep:
		if req.Grep == nil {
			return incomplete
		}
		return func(ctx context.Context, s *wire.Stream) error { return v.grep(ctx, s, req.Grep) }
	case wire.OpBatch:
		if req.Batch == nil {
			return incomplete
		}
		return func(ctx context.Context, s *wire.Stream) error { return v.writeBatch(ctx, s, req.Batch) }
	case wire.OpWatch:
		if req.Watch == nil {
			return incomplete
		}
		return func(ctx context.Context, s *wire.Stream) error { return v.watch(ctx, s, req.Watch) }
	}
	if serve := v.treeOp(req.Op); serve != nil {
		if req.Tree == nil {
			return incomplete
		}
		return func(ctx context.Context, s *wire.Stream) error { return serve(ctx, s, req.Tree) }
	}
	serve := v.namedOp(req.Op)
	if serve != nil && req.File == nil {
		return incomplete
	}
	if serve == nil {
		return nil
	}
	return func(ctx context.Context, s *wire.Stream) error { return serve(ctx, s, req.File) }
}

// namedOp returns what serves an operation on a named file.
func (v *Server) namedOp(op wire.Op) func(context.Context, *wire.Stream, *wire.FileRequest) error {
	switch op {
	case wire.OpOpen:
		return v.openFile
	case wire.OpList:
		return v.listFiles
	case wire.OpStat:
		return v.statFile
	case wire.OpResolve:
		return v.resolveName
	case wire.OpWrite, wire.OpMkdir, wire.OpRemove, wire.OpRename, wire.OpCopy, wire.OpChmod, wire.OpSymlink:
		return func(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
			if err := v.change(ctx, s, op, r); err != nil {
				return err
			}
			v.Tell(changed(op, r))
			return stream.Reply(s, &wire.Reply{})
		}
	}
	return nil
}

// change makes the one change to the files that op names.
func (v *Server) change(ctx context.Context, s *wire.Stream, op wire.Op, r *wire.FileRequest) error {
	fsys, name := v.Files, string(r.Name)
	switch op {
	case wire.OpWrite:
		return fsys.Write(ctx, name, wire.NewDataReader(s), r.Size, files.WriteOptions{
			Mode: fs.FileMode(r.Mode) & fs.ModePerm, SetMode: r.SetMode, NoParents: r.NoParents,
			Exclusive: r.Exclusive, Sync: r.Sync, AnySize: r.AnySize, IfSHA256: r.IfSHA256,
		})
	case wire.OpMkdir:
		return fsys.Mkdir(ctx, name, files.MkdirOptions{Parents: r.Parents})
	case wire.OpRemove:
		return fsys.Remove(ctx, name, files.RemoveOptions{Recursive: r.Recursive})
	case wire.OpRename:
		return fsys.Rename(ctx, name, string(r.NewName), files.RenameOptions{Overwrite: r.Overwrite})
	case wire.OpCopy:
		return files.Copy(ctx, fsys, name, string(r.NewName), files.CopyOptions{Overwrite: r.Overwrite, Recursive: r.Recursive})
	case wire.OpSymlink:
		return files.MakeSymlink(ctx, fsys, string(r.Target), name, files.SymlinkOptions{Overwrite: r.Overwrite})
	default:
		return files.Chmod(ctx, fsys, name, fs.FileMode(r.Mode))
	}
}

func (v *Server) statFile(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	info, err := v.Files.Stat(ctx, string(r.Name), files.StatOptions{Follow: r.Follow})
	if err != nil {
		return err
	}
	sent := wire.FromInfo(info)
	return stream.Reply(s, &wire.Reply{Info: &sent})
}

func (v *Server) resolveName(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	name, err := files.Resolve(ctx, v.Files, string(r.Name))
	if err != nil {
		return err
	}
	return stream.Reply(s, &wire.Reply{Name: wire.Bytes(name)})
}

// writeBatch serves a batch. How many files have landed is said with an error too.
func (v *Server) writeBatch(ctx context.Context, s *wire.Stream, r *wire.BatchRequest) error {
	var told batchNames
	landed, err := files.WriteBatch(ctx, v.Files, told.note(wire.BatchFiles(wire.NewDataReader(s))), files.BatchOptions{Sync: r.Sync})
	told.tell(landed, v.Tell)
	return stream.Reply(s, &wire.Reply{Err: wire.FromError(err), Landed: landed})
}

// openFile sends what the file is, its bytes and their end: for a small file all at
// once. An error among the bytes takes the place of the end.
func (v *Server) openFile(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	f, err := v.Files.Open(ctx, string(r.Name), files.OpenOptions{Offset: r.Offset, Length: r.Length, MaxBytes: r.MaxBytes, NoFollow: r.NoFollow})
	if err != nil {
		return err
	}
	defer f.Close()
	buf := v.Buffers.Get()
	defer v.Buffers.Put(buf)
	info := wire.FromInfo(f.Info())
	var first bytes.Buffer // what goes out with the first bytes
	if err := wire.WriteMessage(&first, &wire.Reply{Info: &info}); err != nil {
		return err
	}
	out := io.Writer(&first)
	for {
		n, err := f.Read(buf[:])
		_, werr := wire.WriteData(out, buf[:n], v.ChunkBytes)
		if err == io.EOF && werr == nil {
			werr = wire.WriteEnd(out)
		}
		if first.Len() > 0 && (err != nil || first.Len() > len(buf)/2) {
			_, werr = s.Write(first.Bytes())
			first.Reset()
			out = s
		}
		switch {
		case werr != nil:
			return stream.ErrGone
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// listBytes is about how much one reply of a listing carries.
const listBytes = 128 << 10

// listFiles sends the entries of a directory in batches.
func (v *Server) listFiles(ctx context.Context, s *wire.Stream, r *wire.FileRequest) error {
	var batch []wire.FileInfo
	size := 0
	for info, err := range v.Files.List(ctx, string(r.Name)) {
		if err != nil {
			return err
		}
		if len(batch) == wire.ListBatch || size > listBytes {
			if err := stream.Reply(s, &wire.Reply{Entries: batch}); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
		batch = append(batch, wire.FromInfo(info))
		const fixed = 160 // numbers and names of fields
		size += fixed + 2*(len(info.Name)+len(info.Target))
	}
	return stream.Reply(s, &wire.Reply{Entries: batch, Done: true})
}
