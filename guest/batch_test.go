package guest_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func named(name, content string) files.BatchFile {
	return files.BatchFile{Name: name, Size: int64(len(content)), Src: strings.NewReader(content)}
}

func sequence(all ...files.BatchFile) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// take reads a batch as a guest does and returns what came.
func take(st *wire.Stream) (got []string, err error) {
	for f, err := range wire.BatchFiles(wire.NewDataReader(st)) {
		if err != nil {
			return got, err
		}
		data, err := io.ReadAll(f.Src)
		if err != nil {
			return got, err
		}
		got = append(got, f.Name+"="+string(data))
	}
	return got, nil
}

// A guest is believed about a batch as far as it can be true.
func TestHostileBatch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reply  wire.Reply
		early  bool
		landed int
		code   spec.Code
		path   string
	}{
		{name: "honest", reply: wire.Reply{Landed: 3}, landed: 3},
		{name: "fails in the middle", reply: wire.Reply{Landed: 1, Err: wire.FromError(&spec.Error{Code: spec.CodeIsDirectory, Path: "b"})}, landed: 1, code: spec.CodeIsDirectory, path: "b"},
		{name: "names another file", reply: wire.Reply{Landed: 1, Err: wire.FromError(&spec.Error{Code: spec.CodeIsDirectory, Path: "/host"})}, landed: 1, code: spec.CodeIsDirectory},
		{name: "more than there were", reply: wire.Reply{Landed: 4}, code: spec.CodeInternal},
		{name: "fewer without an error", reply: wire.Reply{Landed: 2}, code: spec.CodeInternal},
		{name: "less than none", reply: wire.Reply{Landed: -1}, code: spec.CodeInternal},
		{name: "more than there were, with an error", reply: wire.Reply{Landed: 9, Err: wire.FromError(spec.New(spec.CodeNoSpace, "x"))}, code: spec.CodeInternal},
		{name: "an early refusal", reply: wire.Reply{Err: wire.FromError(&spec.Error{Code: spec.CodeNoSpace, Path: "a"})}, early: true, code: spec.CodeNoSpace, path: "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				if !tt.early {
					if got, err := take(st); err != nil || len(got) != 3 || got[0] != "a=1" || got[2] != "c=3" {
						t.Errorf("the guest got %.40q, %v", got, err)
					}
				}
				reply(st, tt.reply)
			})
			batch := sequence(named("a", "1"), named("b", strings.Repeat("x", 300<<10)), named("c", "3"))
			landed, err := files.WriteBatch(t.Context(), f.open(guest.OpenOptions{}).Files(), batch, files.BatchOptions{})
			wantCode(t, err, tt.code)
			var e *spec.Error
			if errors.As(err, &e) && e.Path != tt.path {
				t.Errorf("the path is %q, want %q", e.Path, tt.path)
			}
			if landed != tt.landed {
				t.Errorf("%d landed, want %d", landed, tt.landed)
			}
		})
	}
}

// A batch that the caller cannot deliver is CodeInvalid, and never ends for the guest
// as if it were whole.
func TestBatchThatIsNotDelivered(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		bad  files.BatchFile
		err  error
		want error
		path string
	}{
		{"short", files.BatchFile{Name: "s", Size: 3, Src: strings.NewReader("ab")}, nil, spec.ErrInvalid, "s"},
		{"long", files.BatchFile{Name: "s", Size: 1, Src: strings.NewReader("ab")}, nil, spec.ErrInvalid, "s"},
		{"negative", files.BatchFile{Name: "s", Size: -1}, nil, spec.ErrInvalid, "s"},
		{"without a source", files.BatchFile{Name: "s", Size: 1}, nil, spec.ErrInvalid, "s"},
		{"with a bad name", named("a\x00b", "x"), nil, spec.ErrInvalidPath, "a\x00b"},
		{"a source that fails", files.BatchFile{Name: "s", Size: 1, Src: failing{}}, nil, errPlain, "s"},
		{"a sequence that fails", files.BatchFile{}, broken, broken, ""},
		{"a sequence that fails with a code", files.BatchFile{}, spec.New(spec.CodeTooLarge, "much"), spec.ErrTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ended := make(chan error, 1)
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_, err := take(st)
				ended <- err
				reply(st, wire.Reply{Landed: 3})
			})
			landed, err := files.WriteBatch(t.Context(), f.open(guest.OpenOptions{}).Files(), func(yield func(files.BatchFile, error) bool) {
				_ = yield(named("a", "1"), nil) && yield(tt.bad, tt.err) && yield(named("b", "2"), nil)
			}, files.BatchOptions{})
			var e *spec.Error
			if landed != 0 || !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Path != tt.path {
				t.Errorf("%d landed, %v", landed, err)
			}
			if err := <-ended; err == nil {
				t.Error("for the guest the batch is whole")
			}
		})
	}
}

// A lost connection is CodeUnavailable while the guest has not got everything, and
// CodeUnknownOutcome afterwards.
func TestBatchOverALostConnection(t *testing.T) {
	for _, whole := range []bool{true, false} {
		f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
			if whole {
				_, _ = take(st)
			}
			c.cut()
		})
		src := io.Reader(strings.NewReader("x"))
		if !whole {
			r, w := io.Pipe()
			defer w.Close()
			src = r
		}
		code := spec.CodeUnavailable
		if whole {
			code = spec.CodeUnknownOutcome
		}
		_, err := files.WriteBatch(t.Context(), f.open(guest.OpenOptions{}).Files(), sequence(files.BatchFile{Name: "a", Size: 1, Src: src}), files.BatchOptions{})
		wantCode(t, err, code)
	}
}

// A cancel ends a batch at once while a source blocks.
func TestBatchCancelled(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		_, _ = take(st)
		reply(st, wire.Reply{})
	})
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	fsys := f.open(guest.OpenOptions{}).Files()
	quickly(t, 5*time.Second, "a cancelled batch", func() {
		landed, err := files.WriteBatch(ctx, fsys, sequence(named("a", "x"), files.BatchFile{Name: "b", Size: 5, Src: r}), files.BatchOptions{})
		if landed != 0 || err != context.Canceled {
			t.Errorf("%d landed, %v", landed, err)
		}
	})
}

// What was cancelled before its end is never whole for the guest.
func TestCancelledUploadHasNoEnd(t *testing.T) {
	ended := make(chan error, 1)
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		var err error
		if req.Op == wire.OpBatch {
			_, err = take(st)
		} else {
			_, err = io.Copy(io.Discard, wire.NewDataReader(st))
		}
		ended <- err
		reply(st, wire.Reply{Landed: 2})
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := files.WriteBatch(ctx, fsys, func(yield func(files.BatchFile, error) bool) {
			if yield(named("a", "x"), nil) {
				cancel()
				yield(named("b", "x"), nil)
			}
		}, files.BatchOptions{})
		if err != context.Canceled || <-ended == nil {
			t.Fatalf("a batch: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		err = fsys.Write(ctx, "a", io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		})), 1, files.WriteOptions{})
		if err != context.Canceled || <-ended == nil {
			t.Fatalf("a write: %v", err)
		}
	}
}
