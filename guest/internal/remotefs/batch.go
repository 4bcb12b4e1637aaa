package remotefs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// WriteBatch implements files.BatchWriter. When it returns early - ctx has ended, or
// the guest refuses - and a source is in a Read that blocks, that one Read is left to
// end by itself; no source is read again, and next is asked for no further file.
func (f fileSystem) WriteBatch(ctx context.Context, next iter.Seq2[files.BatchFile, error], o files.BatchOptions) (int, error) {
	st, err := f.s.Open(ctx, &wire.Request{Op: wire.OpBatch, Batch: &wire.BatchRequest{Sync: o.Sync}}, false) // without its files it changes nothing
	if err != nil {
		return 0, err
	}
	defer st.End()
	b := &batch{next: next}
	u := newUpload(ctx, st, f.s.ChunkBytes(), b.send)
	go u.run()

	landed, err := wire.ReadBatchReply(st)
	u.stop()
	sent, names := b.sent()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case u.fault() != nil:
		return 0, u.fault()
	case landed > sent || err == nil && (landed != sent || !u.complete()):
		return 0, ask.Violation("%d files landed of a batch of %d", landed, sent)
	case err == nil:
		return landed, nil
	}
	return landed, atOneOf(u.failed(err), names)
}

// atOneOf keeps the path of err if it is one of names.
func atOneOf(err error, names []string) error {
	var e *spec.Error
	if !errors.As(err, &e) {
		return err
	}
	for _, name := range names {
		if name == e.Path {
			return at(err, name)
		}
	}
	return at(err, "")
}

// batch sends the files of one batch.
type batch struct {
	next iter.Seq2[files.BatchFile, error]

	mu    sync.Mutex
	names []string // of what has been sent
}

// sent returns how many files were sent and what they are called.
func (b *batch) sent() (int, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.names), b.names
}

func (b *batch) note(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names = append(b.names, name)
}

// send sends all files, many small ones in a frame.
func (b *batch) send(out *frames) error {
	for f, err := range b.next {
		if err == nil {
			err = checkBatchFile(&f)
		}
		if err != nil {
			return atFault(err, f.Name)
		}
		if err := out.grow(batchHeader + len(f.Name)); err != nil {
			return err
		}
		out.buf = wire.AppendBatchFile(out.buf, &f)
		b.note(f.Name)
		if err := out.copy(f.Src, f.Size); err != nil {
			return blame(err, f.Name)
		}
	}
	return nil
}

// batchHeader is the most that comes before the bytes of a file beside its name.
const batchHeader = 32

func checkBatchFile(f *files.BatchFile) error {
	if f.Size < 0 {
		return spec.New(spec.CodeInvalid, "a negative size")
	}
	var err error
	if f.Src, err = sourceOf(f.Src, f.Size); err != nil {
		return err
	}
	return spec.ValidatePath(f.Name)
}

// atFault is what the caller's part of a batch failed with; an error that has a code
// keeps it.
func atFault(err error, name string) error {
	var e *spec.Error
	if !errors.As(err, &e) {
		err = &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the batch failed: %w", err)}
	}
	return &faultError{spec.Wrap(err, "", "", "", name)}
}
