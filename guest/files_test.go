package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// A listing streams: its consumer may break off an endless one, and what cannot be a
// name in a directory is refused.
func TestHostileListing(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		name := string(req.File.Name)
		switch name {
		case "endless":
			for wire.WriteMessage(st, wire.Reply{Entries: []wire.FileInfo{{Name: wire.Bytes("a")}, {Name: wire.Bytes("b")}}}) == nil {
			}
		case "empty batches":
			for wire.WriteMessage(st, wire.Reply{}) == nil {
			}
		default:
			reply(st, wire.Reply{Entries: []wire.FileInfo{{Name: wire.Bytes(name)}}, Done: true})
		}
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	n := 0
	for _, err := range fsys.List(context.Background(), "endless") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1001 {
			break
		}
	}
	for _, dir := range []string{"empty batches", "..", "."} {
		_, err := files.ReadDir(context.Background(), fsys, dir, 0)
		wantCode(t, err, spec.CodeInternal)
	}
	_, err := files.ReadDir(context.Background(), fsys, "endless", 500)
	wantCode(t, err, spec.CodeTooLarge)
}

// A file is what its record promises: no byte more, and never silently one less.
func TestHostileFile(t *testing.T) {
	for _, tt := range []struct {
		name string
		info *wire.FileInfo
		data string
		cut  bool
		code spec.Code
	}{
		{"whole", &wire.FileInfo{Name: wire.Bytes("a"), Size: 5}, "hello", false, ""},
		{"short", &wire.FileInfo{Name: wire.Bytes("a"), Size: 6}, "hello", false, spec.CodeUnavailable},
		{"long", &wire.FileInfo{Name: wire.Bytes("a"), Size: 4}, "hello", false, spec.CodeInternal},
		{"cut", &wire.FileInfo{Name: wire.Bytes("a"), Size: 5}, "hello", true, spec.CodeInternal},
		{"negative", &wire.FileInfo{Name: wire.Bytes("a"), Size: -1}, "", false, spec.CodeInternal},
		{"path", &wire.FileInfo{Name: wire.Bytes("../a"), Size: 5}, "hello", false, spec.CodeInternal},
		{"directory", &wire.FileInfo{Name: wire.Bytes("a"), Size: 5, Mode: 1 << 31}, "hello", false, spec.CodeInternal},
		{"no record", nil, "hello", false, spec.CodeInternal},
		{"over the limit", &wire.FileInfo{Name: wire.Bytes("a"), Size: 1 << 40}, "hello", false, spec.CodeTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_ = wire.WriteMessage(st, wire.Reply{Info: tt.info})
				_, _ = wire.WriteData(st, []byte(tt.data), 0)
				if !tt.cut {
					_ = wire.WriteEnd(st)
					_, _ = io.Copy(io.Discard, st)
				}
			})
			data, err := files.ReadFile(context.Background(), f.open(guest.OpenOptions{}).Files(), "dir/a", 1<<20)
			wantCode(t, err, tt.code)
			if err == nil && string(data) != "hello" {
				t.Errorf("read %q", data)
			}
			var e *spec.Error
			if errors.As(err, &e) && e.Path != "dir/a" {
				t.Errorf("the error names %q", e.Path)
			}
		})
	}
}

// A range gives exactly the bytes of the range.
func TestRange(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		all := []byte("0123456789")
		_ = wire.WriteMessage(st, wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes("a"), Size: 10}})
		from := min(req.File.Offset, 10)
		to := int64(10)
		if req.File.Length > 0 {
			to = min(from+req.File.Length, 10)
		}
		_, _ = wire.WriteData(st, all[from:to], 0)
		_ = wire.WriteEnd(st)
		_, _ = io.Copy(io.Discard, st)
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{{0, 0, "0123456789"}, {3, 4, "3456"}, {8, 9, "89"}, {10, 1, ""}, {99, 0, ""}} {
		r, err := fsys.Open(context.Background(), "a", files.OpenOptions{Offset: tt.offset, Length: tt.length})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil || string(data) != tt.want {
			t.Errorf("%+v: %q, %v", tt, data, err)
		}
	}
	_, err := fsys.Open(context.Background(), "a", files.OpenOptions{Offset: -1})
	wantCode(t, err, spec.CodeInvalid)
}

// A write is exact: a source that is shorter or longer than it was said to be, or
// fails, is CodeInvalid and the guest never sees the end that would make it rename.
func TestWriteIsExact(t *testing.T) {
	for _, tt := range []struct {
		name string
		src  io.Reader
		size int64
		any  bool
		code spec.Code
		sent string
	}{
		{"exact", strings.NewReader("hello"), 5, false, "", "hello"},
		{"empty", strings.NewReader(""), 0, false, "", ""},
		{"byte by byte", &dribble{[]byte("hello")}, 5, false, "", "hello"},
		{"any", strings.NewReader("hello"), -1, true, "", "hello"},
		{"short", strings.NewReader("hell"), 5, false, spec.CodeInvalid, ""},
		{"long", strings.NewReader("hello!"), 5, false, spec.CodeInvalid, ""},
		{"fails", io.MultiReader(strings.NewReader("he"), failing{}), 5, false, spec.CodeInvalid, ""},
		{"fails at its end", io.MultiReader(strings.NewReader("hello"), failing{}), 5, false, spec.CodeInvalid, ""},
		{"large and short", io.LimitReader(zeros{}, 3<<20), 3<<20 + 1, false, spec.CodeInvalid, ""},
		{"large and long", io.LimitReader(zeros{}, 3<<20), 3<<20 - 1, false, spec.CodeInvalid, ""},
		{"large", io.LimitReader(zeros{}, 3<<20), 3 << 20, false, "", string(make([]byte, 3<<20))},
		{"at a chunk", io.LimitReader(zeros{}, 64<<10), 64 << 10, false, "", string(make([]byte, 64<<10))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := make(chan string, 1)
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				data, err := io.ReadAll(wire.NewDataReader(st))
				if err != nil {
					close(whole)
					reply(st, wire.Reply{Err: &wire.Error{Code: string(spec.CodeInvalid)}})
					return
				}
				whole <- string(data)
				reply(st, wire.Reply{})
			})
			err := f.open(guest.OpenOptions{}).Files().Write(context.Background(), "a", tt.src, tt.size, files.WriteOptions{AnySize: tt.any})
			wantCode(t, err, tt.code)
			if strings.HasPrefix(tt.name, "fails") && !errors.Is(err, errPlain) {
				t.Errorf("%v has lost its cause", err)
			}
			if got, ok := <-whole; ok != (tt.code == "") || got != tt.sent {
				t.Errorf("the guest got the end: %t, %d bytes", ok, len(got))
			}
		})
	}
}

// A negative size is refused before the source is read and before anything is sent.
func TestNegativeSize(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { reply(st, wire.Reply{}) })
	s := f.open(guest.OpenOptions{})
	read := false
	err := s.Files().Write(context.Background(), "a", readerFunc(func([]byte) (int, error) { read = true; return 0, io.EOF }), -1, files.WriteOptions{})
	wantCode(t, err, spec.CodeInvalid)
	if read || f.count("") != 0 {
		t.Errorf("read: %t, sent %d requests", read, f.count(""))
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", 5000)} {
		wantCode(t, s.Files().Remove(context.Background(), name, files.RemoveOptions{}), spec.CodeInvalidPath)
	}
	if f.count("") != 0 {
		t.Error("a bad path was sent")
	}
}

// A guest that refuses early ends the sending, whatever the source still has.
func TestEarlyRefusal(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		reply(st, wire.Reply{Err: &wire.Error{Code: string(spec.CodeIsDirectory), Path: wire.Bytes("/etc/shadow")}})
	})
	fsys := f.open(guest.OpenOptions{}).Files()
	over := make(chan struct{})
	defer close(over)
	blocked := readerFunc(func([]byte) (int, error) { <-over; return 0, io.EOF })
	for name, src := range map[string]io.Reader{"endless": zeros{}, "blocked": blocked} {
		quickly(t, 10*time.Second, name, func() {
			err := fsys.Write(context.Background(), "dir", src, 1<<50, files.WriteOptions{})
			wantCode(t, err, spec.CodeIsDirectory)
			var e *spec.Error
			if errors.As(err, &e); e.Path != "dir" {
				t.Errorf("the error names %q", e.Path)
			}
		})
	}
}

// A guest that says yes before it can have everything is not believed.
func TestEarlyAcceptance(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { reply(st, wire.Reply{}) })
	quickly(t, 3*time.Second, "write", func() {
		err := f.open(guest.OpenOptions{}).Files().Write(context.Background(), "a", zeros{}, 1<<50, files.WriteOptions{})
		wantCode(t, err, spec.CodeInternal)
	})
}

// A connection that breaks before the end was sent has changed nothing; one that
// breaks after it is an unknown outcome.
func TestWriteOverALostConnection(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int64
		code spec.Code
	}{{"before the end", 1 << 50, spec.CodeUnavailable}, {"after the end", 100, spec.CodeUnknownOutcome}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
				_, _ = io.CopyN(io.Discard, wire.NewDataReader(st), 101)
				c.cut()
			})
			err := f.open(guest.OpenOptions{}).Files().Write(context.Background(), "a", io.LimitReader(zeros{}, tt.size), tt.size, files.WriteOptions{})
			wantCode(t, err, tt.code)
		})
	}
}

// A status is bounded and never negative where that makes no sense.
func TestHostileStatus(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		reply(st, wire.Reply{Status: &wire.Status{Commands: -4, Clients: -1, UptimeNS: -1, Version: strings.Repeat("v", 10000), Notice: string(bytes.Repeat([]byte("n"), 100_000))}})
	})
	st, err := f.open(guest.OpenOptions{}).Status(context.Background())
	if err != nil || st.Commands != 0 || st.Clients != 0 || st.Uptime != 0 || len(st.GuestVersion) != 256 || len(st.Notice) != 4096 {
		t.Errorf("%+v, %v", st, err)
	}
}

type dribble struct{ left []byte }

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.left) == 0 {
		return 0, io.EOF
	}
	p[0], d.left = d.left[0], d.left[1:]
	return 1, nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errPlain }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
