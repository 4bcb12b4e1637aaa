package files_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// ReadFile gives a file whole or refuses it, never a part of it.
func TestReadFile(t *testing.T) {
	fsys := memfs.New("/")
	content := strings.Repeat("x", files.DefaultReadLimit)
	for name, data := range map[string]string{"empty": "", "ten": "0123456789", "cap": content, "over": content + "x"} {
		if err := files.WriteFile(t.Context(), fsys, name, []byte(data), files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		limit int64
		want  int
		err   error
	}{
		{"empty", 0, 0, nil},
		{"empty", 1, 0, nil},
		{"ten", 10, 10, nil},
		{"ten", 9, 0, spec.ErrTooLarge},
		{"ten", -5, 10, nil},
		{"cap", 0, len(content), nil},
		{"over", 0, 0, spec.ErrTooLarge},
		{"over", files.DefaultReadLimit + 1, len(content) + 1, nil},
		{"missing", 0, 0, spec.ErrFileNotFound},
	}
	for _, tt := range tests {
		got, err := files.ReadFile(t.Context(), fsys, tt.name, tt.limit)
		if len(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s with limit %d: %d bytes, %v; want %d, %v", tt.name, tt.limit, len(got), err, tt.want, tt.err)
		}
	}
}

// liar is an FS whose files say less than they give, and break off.
type liar struct {
	files.FS
	size int64
	src  io.Reader
}

func (l liar) Open(context.Context, string, files.OpenOptions) (files.File, error) { return l, nil }

func (l liar) Info() files.Info { return files.Info{Size: l.size} }

func (l liar) Read(p []byte) (int, error) { return l.src.Read(p) }
func (l liar) Close() error               { return nil }

// An FS that breaks its promise costs no more memory than the limit, and an error
// in the middle is one of the whole.
func TestReadFileOfALiar(t *testing.T) {
	endless := liar{size: 3, src: zeros{}}
	if got, err := files.ReadFile(t.Context(), endless, "f", 1000); err != nil || len(got) != 1000 {
		t.Errorf("an endless file: %d bytes, %v", len(got), err)
	}
	broken := errors.New("broken")
	cut := liar{size: 1 << 62, src: io.MultiReader(strings.NewReader("some"), failing{broken})}
	if got, err := files.ReadFile(t.Context(), cut, "f", 1000); !errors.Is(err, broken) || got != nil {
		t.Errorf("a file that breaks off: %q, %v", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// ReadDir collects up to its limit, and says so when there is more.
func TestReadDir(t *testing.T) {
	fsys := memfs.New("/")
	const entries = 10
	for i := range entries {
		if err := files.WriteFile(t.Context(), fsys, fmt.Sprintf("d/%d", i), nil, files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		limit, want int
		err         error
	}{{0, 10, nil}, {11, 10, nil}, {10, 10, nil}, {9, 9, spec.ErrTooLarge}, {1, 1, spec.ErrTooLarge}, {-1, 10, nil}}
	for _, tt := range tests {
		got, err := files.ReadDir(t.Context(), fsys, "d", tt.limit)
		if len(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("limit %d: %d entries, %v; want %d, %v", tt.limit, len(got), err, tt.want, tt.err)
		}
		names := map[string]bool{}
		for _, info := range got {
			names[info.Name] = true
		}
		if len(names) != len(got) {
			t.Errorf("limit %d: names come twice", tt.limit)
		}
	}
	if got, err := files.ReadDir(t.Context(), fsys, "missing", 0); len(got) != 0 || !errors.Is(err, spec.ErrFileNotFound) {
		t.Errorf("a missing directory: %d entries, %v", len(got), err)
	}
}

// breaking is an FS whose listing fails after two entries.
type breaking struct {
	files.FS
	err error
}

func (b breaking) List(context.Context, string) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		_ = yield(files.Info{Name: "a"}, nil) && yield(files.Info{Name: "b"}, nil) && yield(files.Info{}, b.err)
	}
}

// A listing that breaks off gives what was read, with the error.
func TestReadDirBreaksOff(t *testing.T) {
	broken := errors.New("broken")
	got, err := files.ReadDir(t.Context(), breaking{err: broken}, "d", 0)
	if !errors.Is(err, broken) || !slices.EqualFunc(got, []string{"a", "b"}, func(i files.Info, n string) bool { return i.Name == n }) {
		t.Errorf("%+v, %v", got, err)
	}
}
