package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
)

// The options of a watch, and the changes that it tells, cross the wire as they are.
func TestWatchRoundTrip(t *testing.T) {
	o := files.WatchOptions{Recursive: true, Gitignore: true, Exclude: []string{"a", "b\xff"}}
	r := throughJSON(t, wire.FromWatch("d\xfe", o))
	if diff := cmp.Diff(o, r.Options()); diff != "" || string(r.Name) != "d\xfe" {
		t.Errorf("watch of %q (-sent +got):\n%s", r.Name, diff)
	}
	sent := []files.WatchEvent{
		{Kind: files.WatchCreated, Path: "dir", Dir: true},
		{Kind: files.WatchCreated, Path: "dir/new\nline\xff"},
		{Kind: files.WatchMode, Path: ".", Dir: true},
		{Kind: files.WatchWritten, Path: "dir/new\nline\xff"},
		{Kind: files.WatchRenamed, Path: "dir/b", OldPath: "dir/new\nline\xff"},
		{Kind: files.WatchOverflow, Path: "."},
		{Kind: files.WatchRemoved, Path: "dir/b"},
		{Kind: files.WatchRenamed, Path: "x/" + strings.Repeat("y", 255), OldPath: "dir", Dir: true},
		{Kind: files.WatchRemoved, Path: ".", Dir: true},
	}
	var buf []byte
	prev := ""
	for i := range sent {
		buf, prev = wire.AppendChange(buf, prev, &sent[i])
	}
	in := wire.NewChangeReader(bytes.NewReader(buf))
	var got []files.WatchEvent
	for {
		e, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("changes (-sent +got):\n%s", diff)
	}
}

// A change that no watch tells is a breach of the protocol: above all a path that leads
// out of what is watched.
func TestChangeReaderRefuses(t *testing.T) {
	path := func(flags byte, path string) []byte { return append([]byte{flags, 0, byte(len(path))}, path...) }
	for name, in := range map[string][]byte{
		"no kind":                {0},
		"an unknown kind":        path(7, "a"),
		"an unknown flag":        path(0x41, "a"),
		"a parent":               path(1, "../a"),
		"an absolute path":       path(1, "/a"),
		"an empty path":          path(1, ""),
		"a dot":                  path(1, "a/./b"),
		"a NUL":                  path(1, "a\x00b"),
		"an old path out of it":  append(path(5, "a"), path(0, "../b")[2:]...),
		"no old path":            append(path(5, "a"), 0),
		"a rename of the top":    {0x25},
		"an overflow of a path":  path(6, "a"),
		"more shared than there": {1, 3, 0},
	} {
		if e, err := wire.NewChangeReader(bytes.NewReader(in)).Next(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := wire.NewChangeReader(bytes.NewReader([]byte{1, 0, 9, 'a'})).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a record that is cut: %v", err)
	}
}

// No bytes make the reader of changes return a path that leads out of what is watched.
func FuzzChanges(f *testing.F) {
	var buf []byte
	prev := ""
	for _, e := range []files.WatchEvent{{Kind: files.WatchCreated, Path: "a/b"}, {Kind: files.WatchRenamed, Path: "a/c", OldPath: "a/b"}, {Kind: files.WatchOverflow, Path: "."}} {
		buf, prev = wire.AppendChange(buf, prev, &e)
	}
	f.Add(buf)
	f.Fuzz(func(t *testing.T, in []byte) {
		r := wire.NewChangeReader(bytes.NewReader(in))
		for e, err := r.Next(); err == nil; e, err = r.Next() {
			for _, path := range []string{e.Path, e.OldPath} {
				if path == "." && e.Kind != files.WatchRenamed || path == "" && e.Kind != files.WatchRenamed {
					continue
				}
				for elem := range strings.SplitSeq(path, "/") {
					if elem == "" || elem == "." || elem == ".." || strings.Contains(elem, "\x00") {
						t.Fatalf("%+v", e)
					}
				}
			}
		}
	})
}
