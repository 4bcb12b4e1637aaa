package source_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/berth-dev/berth/files/internal/source"
	"github.com/berth-dev/berth/spec"
)

// Exactly the announced bytes arrive, however the source cuts them.
func TestCopyExactly(t *testing.T) {
	for _, size := range []int{0, 1, 100, 128<<10 - 1, 128 << 10, 128<<10 + 1, 1 << 20} {
		content := strings.Repeat("0123456789", size/10+1)[:size]
		for name, src := range map[string]io.Reader{
			"whole":           strings.NewReader(content),
			"in halves":       iotest.HalfReader(strings.NewReader(content)),
			"with its end":    iotest.DataErrReader(strings.NewReader(content)),
			"without WriteTo": struct{ io.Reader }{strings.NewReader(content)},
		} {
			for _, announced := range []int64{int64(size), -1} {
				var dst bytes.Buffer
				if announced < 0 {
					src = strings.NewReader(content)
				}
				n, err := source.Copy(t.Context(), &dst, src, announced)
				if err != nil || n != int64(size) || dst.String() != content {
					t.Errorf("%d bytes %s, announced %d: %d, %v", size, name, announced, n, err)
				}
			}
		}
	}
}

// A source that does not keep its word is CodeInvalid; what it says itself with a
// code keeps it.
func TestCopyRefuses(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		src  io.Reader
		size int64
		want error
	}{
		{"short", strings.NewReader("abc"), 4, spec.ErrInvalid},
		{"long", strings.NewReader("abcde"), 4, spec.ErrInvalid},
		{"long by a megabyte", bytes.NewReader(make([]byte, 1<<20)), 4, spec.ErrInvalid},
		{"empty and announced", strings.NewReader(""), 1, spec.ErrInvalid},
		{"not empty and not announced", strings.NewReader("a"), 0, spec.ErrInvalid},
		{"broken", iotest.ErrReader(broken), 4, broken},
		{"broken is invalid", iotest.ErrReader(broken), -1, spec.ErrInvalid},
		{"broken behind the last byte", io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(broken)), 4, broken},
		{"with a code", iotest.ErrReader(spec.New(spec.CodeTooLarge, "too much")), 4, spec.ErrTooLarge},
		{"that cancels itself", iotest.ErrReader(context.Canceled), 4, spec.ErrInvalid},
		{"cut", iotest.ErrReader(io.ErrUnexpectedEOF), 4, spec.ErrInvalid},
		{"without progress", silent{}, 4, io.ErrNoProgress},
		{"that lies about its count", liar{}, 4, spec.ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := source.Copy(t.Context(), io.Discard, tt.src, tt.size)
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

type liar struct{}

func (liar) Read(p []byte) (int, error) { return len(p) + 1, nil }

// An error of the destination comes back as it is.
func TestCopyToABrokenDestination(t *testing.T) {
	full := errors.New("full")
	if _, err := source.Copy(t.Context(), writer(func([]byte) (int, error) { return 0, full }), strings.NewReader("abc"), 3); err != full {
		t.Errorf("%v, want the destination's error", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A cancel ends the copy while the source blocks, and nothing runs on once the
// source gives way.
func TestCopyCancelled(t *testing.T) {
	before := runtime.NumGoroutine()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := source.Copy(ctx, io.Discard, r, 10); err != context.Canceled {
		t.Errorf("%v, want the context's error", err)
	}
	w.Close()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 500 {
			t.Fatalf("%d goroutines run, %d did before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := source.Copy(ctx, io.Discard, strings.NewReader("a"), 1); err != context.Canceled {
		t.Errorf("a copy that begins too late: %v", err)
	}
}
