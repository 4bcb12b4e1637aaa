package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Files of a directory arrive as they were sent.
func TestTreeFiles(t *testing.T) {
	sent := []wire.TreeFile{
		{Path: "a", Mode: 0o644, Size: 1, Sum: [32]byte{1, 2}},
		{Path: "a/b\xff\n", Mode: 0o7777, Size: math.MaxInt64, Sum: [32]byte{31: 9}},
		{Path: "a/c"},
	}
	var buf []byte
	prev := ""
	for _, f := range sent {
		buf = wire.AppendTreeFile(buf, prev, &f)
		prev = f.Path
	}
	var got []wire.TreeFile
	r := wire.NewTreeFileReader(bytes.NewReader(buf))
	f, err := r.Next()
	for ; err == nil; f, err = r.Next() {
		got = append(got, f)
	}
	if diff := cmp.Diff(sent, got); err != io.EOF || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for n := 1; n < 30; n++ {
		if _, err := wire.NewTreeFileReader(bytes.NewReader(buf[:n])).Next(); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	for _, path := range []string{"../a", "/a", "a//b", "a/.", "a\x00", ""} {
		bad := wire.AppendTreeFile(nil, "", &wire.TreeFile{Path: path})
		if _, err := wire.NewTreeFileReader(bytes.NewReader(bad)).Next(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("the path %q: %v", path, err)
		}
	}
	mode := wire.AppendTreeFile(nil, "", &wire.TreeFile{Path: "a", Mode: 0o10000})
	if _, err := wire.NewTreeFileReader(bytes.NewReader(mode)).Next(); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("a mode of too many bits: %v", err)
	}
}

// The counts that end an export or an import are in range, and there beside an error.
func TestTreeReply(t *testing.T) {
	stats := wire.TreeStats{Files: 1, Bytes: 2}
	for _, tt := range []struct {
		name     string
		reply    wire.Reply
		want     wire.TreeStats
		code     spec.Code
		protocol bool
	}{
		{"well", wire.Reply{Tree: &stats}, stats, "", false},
		{"an error", wire.Reply{Tree: &stats, Err: wire.FromError(spec.New(spec.CodeNoSpace, "full"))}, stats, spec.CodeNoSpace, false},
		{"an error alone", wire.Reply{Err: wire.FromError(spec.New(spec.CodeNoSpace, "full"))}, wire.TreeStats{}, spec.CodeNoSpace, false},
		{"nothing", wire.Reply{}, wire.TreeStats{}, spec.CodeInternal, true},
		{"negative", wire.Reply{Tree: &wire.TreeStats{Dirs: -1}}, wire.TreeStats{}, spec.CodeInternal, true},
		{"more than counts", wire.Reply{Tree: &wire.TreeStats{Files: math.MaxInt64}}, wire.TreeStats{}, spec.CodeInternal, true},
	} {
		var buf bytes.Buffer
		if err := wire.WriteMessage(&buf, tt.reply); err != nil {
			t.Fatal(err)
		}
		got, err := wire.ReadTreeReply(&buf)
		if got != tt.want || spec.CodeOf(err) != tt.code || errors.Is(err, wire.ErrProtocol) != tt.protocol {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}
