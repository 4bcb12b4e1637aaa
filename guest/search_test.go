package guest_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// found puts matches together as a guest sends them.
func found(metadata bool, all ...files.Match) []byte {
	var buf []byte
	prev := ""
	for i := range all {
		buf = wire.AppendMatch(buf, prev, &all[i], metadata)
		prev = all[i].Path
	}
	return buf
}

func lines(all ...files.Line) []byte {
	var buf []byte
	prev := ""
	for i := range all {
		buf = wire.AppendLine(buf, prev, &all[i])
		prev = all[i].Path
	}
	return buf
}

// collect takes all of a search.
func collect[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for one, e := range seq {
		if e != nil {
			return all, e
		}
		all = append(all, one)
	}
	return all, nil
}

// A search takes from its guest what was asked for and can be, and nothing else.
func TestHostileSearch(t *testing.T) {
	a := files.Match{Path: "a"}
	text := files.Line{Path: "a", Number: 1, Text: []byte("x"), Match: true}
	for _, tt := range []struct {
		name string
		data []byte
		grep bool
		glob files.GlobOptions
		opts files.GrepOptions
		want int
		code spec.Code
	}{
		{name: "honest", data: found(false, a, files.Match{Path: "b/c"}), want: 2},
		{name: "leads out", data: found(false, a, files.Match{Path: "../b"}), want: 1, code: spec.CodeInternal},
		{name: "absolute", data: found(false, files.Match{Path: "/etc"}), code: spec.CodeInternal},
		{name: "over the limit", data: found(false, a, a, a), glob: files.GlobOptions{Limit: 2}, want: 2, code: spec.CodeInternal},
		{name: "another type", data: found(false, a), glob: files.GlobOptions{Types: files.GlobDirs}, code: spec.CodeInternal},
		{name: "half a record", data: found(true, a)[:3], glob: files.GlobOptions{Metadata: true}, code: spec.CodeInternal},
		{name: "honest lines", grep: true, data: lines(text, text), want: 2},
		{name: "lines that lead out", grep: true, data: lines(files.Line{Path: "..", Number: 1}), code: spec.CodeInternal},
		{name: "context not asked for", grep: true, data: lines(files.Line{Path: "a", Number: 1}), code: spec.CodeInternal},
		{name: "lines over the limit", grep: true, data: lines(text, text), opts: files.GrepOptions{Limit: 1}, want: 1, code: spec.CodeInternal},
		{name: "too long a line", grep: true, data: lines(files.Line{Path: "a", Number: 1, Text: bytes.Repeat([]byte("x"), 101), Match: true}), opts: files.GrepOptions{MaxLineBytes: 100}, code: spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_, _ = wire.WriteData(st, tt.data, 0)
				_ = wire.WriteEnd(st)
				drainStream(st)
			})
			fsys := f.open(guest.OpenOptions{}).Files()
			n, err := 0, error(nil)
			if tt.grep {
				tt.opts.Pattern = "x"
				var all []files.Line
				all, err = collect(files.Grep(t.Context(), fsys, tt.opts))
				n = len(all)
			} else {
				var all []files.Match
				all, err = collect(files.Glob(t.Context(), fsys, tt.glob))
				n = len(all)
			}
			wantCode(t, err, tt.code)
			if n != tt.want {
				t.Errorf("%d results, want %d", n, tt.want)
			}
		})
	}
}

func drainStream(st *wire.Stream) {
	var buf [512]byte
	for {
		if _, err := st.Read(buf[:]); err != nil {
			return
		}
	}
}

// An endless search costs no more than its consumer takes.
func TestEndlessSearch(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		for {
			if _, err := wire.WriteData(st, found(false, files.Match{Path: "a"}), 0); err != nil {
				return
			}
		}
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	n := 0
	for _, err := range files.Glob(t.Context(), fsys, files.GlobOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1000 {
			break
		}
	}
}

// An error among the results comes after them; its path is the directory that was
// searched, whatever the guest says.
func TestSearchThatFails(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		_, _ = wire.WriteData(st, found(false, files.Match{Path: "a"}), 0)
		reply(st, wire.Reply{Err: wire.FromError(&spec.Error{Code: spec.CodeNotDirectory, Path: "/host/path"})})
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	all, err := collect(files.Glob(t.Context(), fsys, files.GlobOptions{Dir: "d"}))
	wantCode(t, err, spec.CodeNotDirectory)
	var e *spec.Error
	if len(all) != 1 || !errors.As(err, &e) || e.Path != "d" {
		t.Errorf("%d results, %v", len(all), err)
	}
}

// A search whose connection breaks is made again if nothing had come, and else is
// CodeUnavailable.
func TestSearchOverALostConnection(t *testing.T) {
	a, b := files.Match{Path: "a"}, files.Match{Path: "b"}
	for name, tt := range map[string]struct {
		first []byte // what comes before the connection breaks
		want  int
		code  spec.Code
	}{
		"before the first": {nil, 2, ""},
		"after the first":  {found(false, a), 1, spec.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			taken := make(chan struct{})
			f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
				if c.n == 1 {
					if tt.first != nil {
						_, _ = wire.WriteData(st, tt.first, 0)
						<-taken
					}
					c.cut()
					return
				}
				_, _ = wire.WriteData(st, found(false, a, b), 0)
				_ = wire.WriteEnd(st)
				drainStream(st)
			})
			fsys := f.open(guest.OpenOptions{Redial: f.dial}).Files()
			n, last := 0, error(nil)
			for _, err := range files.Glob(t.Context(), fsys, files.GlobOptions{}) {
				if last = err; err == nil {
					n++
				}
				if tt.first != nil && n == 1 && err == nil {
					close(taken)
				}
			}
			wantCode(t, last, tt.code)
			if n != tt.want {
				t.Errorf("%d results, want %d", n, tt.want)
			}
		})
	}
}

// What makes no sense is refused before anything is sent.
func TestMoreFilesAreChecked(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { reply(st, wire.Reply{}) })
	fsys := f.open(guest.OpenOptions{}).Files()
	ctx := context.Background()
	glob := func(o files.GlobOptions) error { _, err := collect(files.Glob(ctx, fsys, o)); return err }
	grep := func(o files.GrepOptions) error { _, err := collect(files.Grep(ctx, fsys, o)); return err }
	for name, tt := range map[string]struct {
		err  error
		code spec.Code
	}{
		"chmod without a name":         {files.Chmod(ctx, fsys, "", 0o644), spec.CodeInvalidPath},
		"chmod with more bits":         {files.Chmod(ctx, fsys, "f", 0o10644), spec.CodeInvalid},
		"copy from nothing":            {files.Copy(ctx, fsys, "", "x", files.CopyOptions{}), spec.CodeInvalidPath},
		"copy to NUL":                  {files.Copy(ctx, fsys, "x", "a\x00", files.CopyOptions{}), spec.CodeInvalidPath},
		"a malformed pattern":          {glob(files.GlobOptions{Pattern: "[a"}), spec.CodeInvalid},
		"a pattern that leads out":     {glob(files.GlobOptions{Pattern: "../*"}), spec.CodeInvalid},
		"a malformed exclude":          {glob(files.GlobOptions{Exclude: []string{"{a"}}), spec.CodeInvalid},
		"a negative limit":             {glob(files.GlobOptions{Limit: -1}), spec.CodeInvalid},
		"an unknown type":              {glob(files.GlobOptions{Types: 128}), spec.CodeInvalid},
		"a directory with NUL":         {glob(files.GlobOptions{Dir: "a\x00"}), spec.CodeInvalidPath},
		"a malformed expression":       {grep(files.GrepOptions{Pattern: "("}), spec.CodeInvalid},
		"too much context":             {grep(files.GrepOptions{Pattern: "x", Context: 101}), spec.CodeInvalid},
		"a bad selection":              {grep(files.GrepOptions{Pattern: "x", Files: files.GlobOptions{Pattern: "/x"}}), spec.CodeInvalid},
		"a write with half a checksum": {files.WriteFile(ctx, fsys, "f", nil, files.WriteOptions{IfSHA256: "abc"}), spec.CodeInvalid},
	} {
		if spec.CodeOf(tt.err) != tt.code {
			t.Errorf("%s: %v, want %s", name, tt.err, tt.code)
		}
	}
	if n := f.count(""); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// Where a name leads is an absolute, clean name, or the guest lies.
func TestHostileResolve(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		reply(st, wire.Reply{Name: req.File.Name})
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	for _, name := range []string{"relative", "/a/../b", "/a/", "//", "."} {
		_, err := files.Resolve(t.Context(), fsys, name)
		wantCode(t, err, spec.CodeInternal)
	}
	if got, err := files.Resolve(t.Context(), fsys, "/a\xff/b"); err != nil || got != "/a\xff/b" {
		t.Errorf("%q, %v", got, err)
	}
}

// A change whose answer is lost may have happened.
func TestLostChanges(t *testing.T) {
	f := newFake(t, func(c *fakeConn, _ *wire.Stream, _ *wire.Request) { c.cut() })
	for name, change := range map[string]func(files.FS) error{
		"chmod": func(fsys files.FS) error { return files.Chmod(t.Context(), fsys, "f", 0o644) },
		"copy":  func(fsys files.FS) error { return files.Copy(t.Context(), fsys, "f", "g", files.CopyOptions{}) },
	} {
		err := change(f.open(guest.OpenOptions{}).Files())
		if spec.CodeOf(err) != spec.CodeUnknownOutcome || !strings.Contains(err.Error(), "lost") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
