package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Matches cross the wire byte for byte, with their metadata or without.
func TestMatchRoundTrip(t *testing.T) {
	long := strings.Repeat("d/", 2000) + "x"
	in := []files.Match{
		{Path: "a", Info: files.Info{Name: "a", Mode: fs.ModeDir}},
		{Path: "a/b\xff\n", Info: files.Info{Name: "b\xff\n", Mode: 0o4644 | fs.ModeSetuid, Size: 1 << 62, ModTime: time.Unix(-5, 7), UID: 1 << 31, GID: 65534, Links: 1 << 40}},
		{Path: "a/b\xff\n\xff", Info: files.Info{Name: "b\xff\n\xff", Mode: fs.ModeSymlink | 0o777, Target: "../../\xfe", ModTime: time.Unix(0, 0)}},
		{Path: "a/b", Info: files.Info{Name: "b", Mode: fs.ModeNamedPipe, ModTime: time.Unix(1700000000, 123456789)}},
		{Path: long, Info: files.Info{Name: "x", ModTime: time.Unix(1, 0)}},
	}
	in[0].Info.ModTime = time.Unix(3, 0)
	for _, metadata := range []bool{true, false} {
		var buf []byte
		prev := ""
		for i := range in {
			buf = wire.AppendMatch(buf, prev, &in[i], metadata)
			prev = in[i].Path
		}
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(buf), "byte by byte": iotest.OneByteReader(bytes.NewReader(buf))} {
			reader := wire.NewMatchReader(r, metadata)
			for i, want := range in {
				if !metadata {
					want.Info = files.Info{Name: want.Info.Name, Mode: want.Info.Mode}
				}
				got, err := reader.Next()
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("%s: number %d: %v (-sent +got):\n%s", name, i, err, diff)
				}
			}
			if _, err := reader.Next(); err != io.EOF {
				t.Errorf("%s: after the last: %v", name, err)
			}
		}
		for n := 1; n < len(buf); n++ { // a stream that is cut says so, or ends between two records
			reader, err := wire.NewMatchReader(bytes.NewReader(buf[:n]), metadata), error(nil)
			for err == nil {
				_, err = reader.Next()
			}
			if err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Fatalf("cut after %d bytes: %v", n, err)
			}
		}
	}
}

// Lines cross the wire byte for byte.
func TestLineRoundTrip(t *testing.T) {
	in := []files.Line{
		{Path: "a/b", Number: 1, Text: []byte("x\xff\r\x00"), Match: true},
		{Path: "a/b", Number: 1 << 40, Text: []byte{}, Cut: true},
		{Path: "a/c", Number: 2, Text: bytes.Repeat([]byte("y"), 4096), Cut: true, Match: true},
	}
	var buf []byte
	prev := ""
	for i := range in {
		buf = wire.AppendLine(buf, prev, &in[i])
		prev = in[i].Path
	}
	reader := wire.NewLineReader(bytes.NewReader(buf), 4096)
	for i, want := range in {
		got, err := reader.Next()
		if got.Text == nil {
			got.Text = []byte{}
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("number %d: %v (-sent +got):\n%s", i, err, diff)
		}
	}
	if _, err := reader.Next(); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
	reader = wire.NewLineReader(bytes.NewReader(buf), 4095)
	for range 2 {
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reader.Next(); !errors.Is(err, wire.ErrProtocol) {
		t.Errorf("a longer line than was asked for: %v", err)
	}
}

// Files of a batch cross the wire byte for byte.
func TestBatchFilesRoundTrip(t *testing.T) {
	type file struct {
		name string
		mode fs.FileMode
		data string
	}
	in := []file{{"a", 0, ""}, {"\xff\n", 0o751, "x"}, {strings.Repeat("p", spec.MaxPathBytes), 0o777, strings.Repeat("y", 100_000)}, {"b", 0, "z"}}
	var buf []byte
	for _, f := range in {
		buf = wire.AppendBatchFile(buf, &files.BatchFile{Name: f.name, Mode: f.mode | fs.ModeSetuid, Size: int64(len(f.data))})
		buf = append(buf, f.data...)
	}
	var got []file
	for f, err := range wire.BatchFiles(iotest.HalfReader(bytes.NewReader(buf))) {
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f.Src)
		if err != nil || int64(len(data)) != f.Size {
			t.Fatalf("%d bytes of %d, %v", len(data), f.Size, err)
		}
		got = append(got, file{f.Name, f.Mode, string(data)})
	}
	if diff := cmp.Diff(fmt.Sprint(in), fmt.Sprint(got)); diff != "" {
		t.Errorf("(-sent +got):\n%s", diff)
	}
	for f, err := range wire.BatchFiles(bytes.NewReader(buf)) {
		if f.Size == 1 && err == nil {
			continue // its byte is not taken
		}
		if f.Size > 0 || (err != nil) != (f.Name == "") {
			t.Errorf("%+v, %v", f, err)
		}
	}
	for n := range len(buf) {
		if n > 200 && n < len(buf)-200 {
			continue
		}
		err := error(nil)
		for f, e := range wire.BatchFiles(bytes.NewReader(buf[:n])) {
			if err = e; err == nil {
				if got, _ := io.ReadAll(f.Src); int64(len(got)) < f.Size {
					err = io.ErrUnexpectedEOF
					break
				}
			}
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
}

// record puts numbers and strings together as a peer might.
func record(parts ...any) []byte {
	var buf []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			buf = binary.AppendUvarint(buf, uint64(p))
		case uint64:
			buf = binary.AppendUvarint(buf, p)
		case string:
			buf = append(binary.AppendUvarint(buf, uint64(len(p))), p...)
		case []byte:
			buf = append(buf, p...)
		}
	}
	return buf
}

// What no honest peer says is refused: paths that lead out, sizes that are none,
// numbers without an end.
func TestRecordsRefuse(t *testing.T) {
	endless := bytes.Repeat([]byte{0xff}, 20)
	overlong := append(bytes.Repeat([]byte{0xff}, 9), 0x7f)
	huge := record(1 << 40)
	match := func(data []byte) error {
		r := wire.NewMatchReader(bytes.NewReader(data), true)
		for {
			if _, err := r.Next(); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{"", ".", "..", "/", "/etc/passwd", "a//b", "a/", "./a", "a/.", "a/../b", "../a", "a/..", "a\x00b"} {
		for name, err := range map[string]error{
			"match": match(record(0, path, 0, 0, 0, 0, 0, 0, "")),
			"line":  lineError(record([]byte{0}, 0, path, 1, "")),
		} {
			if !errors.Is(err, wire.ErrProtocol) {
				t.Errorf("%s of %q: %v", name, path, err)
			}
		}
	}
	for name, data := range map[string][]byte{
		"shares more than there is": record(1, "a"), "an endless number": endless, "more than 64 bits": overlong, "a path of a terabyte": append(record(0), huge...),
		"a path that grows too long": append(record(0, strings.Repeat("p", 4000), 0, 0, 0, 0, 0, 0, ""), record(4000, strings.Repeat("p", 200))...),
		"a mode of 33 bits":          record(0, "a", 1<<32), "a size below zero": record(0, "a", 0, uint64(1<<63)), "a user of 33 bits": record(0, "a", 0, 0, 0, 1<<32),
		"a target without bounds": record(0, "a", 0, 0, 0, 0, 0, 0, 1<<40),
	} {
		if err := match(data); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("match with %s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{
		"unknown flags": record([]byte{4}, 0, "a", 1, ""), "number 0": record([]byte{0}, 0, "a", 0, ""), "a number below zero": record([]byte{0}, 0, "a", uint64(1<<63), ""),
		"a newline": record([]byte{0}, 0, "a", 1, "x\ny"), "too long a text": record([]byte{0}, 0, "a", 1, strings.Repeat("x", 101)),
	} {
		if err := lineError(data); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("line with %s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{
		"too long a name": record(strings.Repeat("x", spec.MaxPathBytes+1)), "a mode with more bits": record("a", 0o1000), "a size below zero": record("a", 0, uint64(1<<63)), "an endless number": endless,
	} {
		var err error
		for _, err = range wire.BatchFiles(bytes.NewReader(data)) {
			break
		}
		if !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("file with %s: %v", name, err)
		}
	}
}

func lineError(data []byte) error {
	_, err := wire.NewLineReader(bytes.NewReader(data), 100).Next()
	return err
}

// FuzzRecords: whatever comes is records or an error, in memory that depends on what
// came, and no path leads out.
func FuzzRecords(f *testing.F) {
	m := files.Match{Path: "a/b", Info: files.Info{Mode: 0o644, Target: "x"}}
	f.Add(wire.AppendMatch(wire.AppendMatch(nil, "", &m, true), "a/b", &m, true))
	f.Add(wire.AppendLine(nil, "", &files.Line{Path: "a/b", Number: 3, Text: []byte("text")}))
	f.Add(append(wire.AppendBatchFile(nil, &files.BatchFile{Name: "a", Size: 3}), "abc"...))
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, in []byte) {
		inside := func(path string) {
			if !fs.ValidPath(strings.ToValidUTF8(path, "x")) || path == "." {
				t.Errorf("path %q", path)
			}
		}
		for _, metadata := range []bool{true, false} {
			r := wire.NewMatchReader(bytes.NewReader(in), metadata)
			for m, err := r.Next(); err == nil; m, err = r.Next() {
				inside(m.Path)
			}
		}
		r := wire.NewLineReader(bytes.NewReader(in), 1000)
		for l, err := r.Next(); err == nil; l, err = r.Next() {
			if inside(l.Path); len(l.Text) > 1000 {
				t.Errorf("%d bytes of text", len(l.Text))
			}
		}
		total := int64(0)
		for f, err := range wire.BatchFiles(bytes.NewReader(in)) {
			if err != nil {
				break
			}
			n, _ := io.Copy(io.Discard, f.Src)
			if total += n; total > int64(len(in)) || n > f.Size {
				t.Errorf("%d bytes of %d", n, f.Size)
			}
		}
	})
}

// The options of a search cross the wire as they are.
func TestSearchOptionsRoundTrip(t *testing.T) {
	glob := files.GlobOptions{Dir: "d\xff", Pattern: "**/*.go\xfe", Exclude: []string{"a", "b\xff"}, Gitignore: true, Limit: 7, Types: files.GlobDirs | files.GlobLinks, Metadata: true}
	g := throughJSON(t, wire.FromGlob(glob))
	if diff := cmp.Diff(glob, g.Options()); diff != "" {
		t.Errorf("glob (-sent +got):\n%s", diff)
	}
	grep := files.GrepOptions{Files: glob, Pattern: "x\xff+", Literal: true, IgnoreCase: true, Limit: 3, LimitPerFile: 2, Context: 1, MaxLineBytes: 99}
	r := throughJSON(t, wire.FromGrep(grep))
	if diff := cmp.Diff(grep, r.Options()); diff != "" {
		t.Errorf("grep (-sent +got):\n%s", diff)
	}
}

// The answer to a batch says how many files landed, with an error too.
func TestReadBatchReply(t *testing.T) {
	for _, tt := range []struct {
		reply  wire.Reply
		landed int
		want   error
	}{
		{wire.Reply{}, 0, nil},
		{wire.Reply{Landed: 7}, 7, nil},
		{wire.Reply{Landed: 7, Err: wire.FromError(spec.New(spec.CodeIsDirectory, "x"))}, 7, spec.ErrIsDirectory},
		{wire.Reply{Landed: -1}, 0, wire.ErrProtocol},
	} {
		data, err := messageBytes(tt.reply)
		if err != nil {
			t.Fatal(err)
		}
		if landed, err := wire.ReadBatchReply(bytes.NewReader(data)); landed != tt.landed || !errors.Is(err, tt.want) {
			t.Errorf("%+v: %d, %v", tt.reply, landed, err)
		}
	}
}
