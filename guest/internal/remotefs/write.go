package remotefs

import (
	"context"
	"io"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Write implements files.FS. When it returns early - ctx has ended, or the guest
// refuses - and src is in a Read that blocks, that one Read is left to end by itself;
// src is not read again. A nil src is an empty one.
func (f fileSystem) Write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	if err := spec.ValidatePath(name); err != nil {
		return at(err, name)
	}
	if size < 0 && !o.AnySize {
		return at(spec.New(spec.CodeInvalid, "the size is negative"), name)
	}
	if err := o.Validate(); err != nil {
		return at(err, name)
	}
	if o.AnySize {
		size = -1
	}
	src, err := sourceOf(src, size)
	if err != nil {
		return at(err, name)
	}
	return at(f.write(ctx, name, src, size, o), name)
}

func (f fileSystem) write(ctx context.Context, name string, src io.Reader, size int64, o files.WriteOptions) error {
	st, err := f.s.Open(ctx, fileRequest(wire.OpWrite, wire.FileRequest{
		Name: wire.Bytes(name), Size: size, AnySize: o.AnySize, Mode: int64(o.Mode.Perm()), SetMode: o.SetMode,
		NoParents: o.NoParents, Exclusive: o.Exclusive, Sync: o.Sync, IfSHA256: o.IfSHA256,
	}), false) // without the bytes and their end it changes nothing
	if err != nil {
		return err
	}
	defer st.End()
	u := newUpload(ctx, st, chunkOf(f.s.ChunkBytes(), size), func(out *frames) error {
		if err := out.copy(src, size); err != nil {
			return blame(err, "")
		}
		return nil
	})
	go u.run()

	_, err = wire.ReadReply(st)
	u.stop()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case u.fault() != nil:
		return u.fault()
	case err == nil && !u.complete():
		return ask.Violation("the guest took a file before all of it was sent")
	case err == nil:
		return nil
	}
	return u.failed(err)
}

// chunkOf is how much memory a file of a size needs on its way, one byte past its end
// included, which shows a source that is too long.
func chunkOf(chunk int, size int64) int {
	if size >= 0 && size < int64(chunk) {
		return int(size) + 1
	}
	return chunk
}
