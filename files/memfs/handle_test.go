package memfs_test

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// A Handle changes a file in place; who has opened it before sees what was there then,
// and a copy is a file of its own.
func TestHandle(t *testing.T) {
	fsys := memfs.New("/work")
	h, err := fsys.OpenFile("f", os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	put := func(h *memfs.Handle, text string, off int64) {
		t.Helper()
		if off < 0 {
			_, err = h.Append([]byte(text))
		} else {
			_, err = h.WriteAt([]byte(text), off)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	holds := func(name, want string) {
		t.Helper()
		if got, err := files.ReadFile(t.Context(), fsys, name, 0); string(got) != want || err != nil {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	put(h, "hello", -1)
	early, err := fsys.Open(t.Context(), "f", files.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Copy(t.Context(), fsys, "f", "copy", files.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	other, err := fsys.OpenFile("copy", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	put(h, " world", -1)
	put(other, " there", -1)
	put(h, "J", 0)
	put(h, "!", 12)
	holds("f", "Jello world\x00!")
	holds("copy", "hello there")
	if got, err := io.ReadAll(early); string(got) != "hello" || err != nil {
		t.Errorf("the early reader has %q, %v", got, err)
	}
	if err := files.WriteFile(t.Context(), fsys, "f", []byte("new"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	put(h, "gone", -1)
	holds("f", "new")
	if _, err := fsys.OpenFile("f", os.O_TRUNC, 0); err != nil {
		t.Fatal(err)
	}
	holds("f", "")
	if mode := h.Info().Mode; mode != 0o640 {
		t.Errorf("mode %v", mode)
	}
	for _, try := range []struct {
		name string
		flag int
		want error
	}{
		{"f", os.O_CREATE | os.O_EXCL, spec.ErrExists},
		{"missing", 0, spec.ErrFileNotFound},
		{"/work", 0, spec.ErrIsDirectory},
		{"f/x", os.O_CREATE, spec.ErrNotDirectory},
	} {
		if _, err := fsys.OpenFile(try.name, try.flag, 0o644); !errors.Is(err, try.want) {
			t.Errorf("open %s: %v; want %v", try.name, err, try.want)
		}
	}
}
