package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// An answer that lists more than was asked for, or than there can be, is a breach, and
// the host stops reading it within its bounds of memory.
func TestListsOfALiar(t *testing.T) {
	jobs := func(st *wire.Stream, name func(i int) *wire.Job) {
		for i := 1; ; i++ {
			if wire.WriteMessage(st, wire.Reply{Jobs: []wire.Job{*name(i)}}) != nil {
				return
			}
		}
	}
	grep := func(ctx context.Context, s *guest.Session, o files.GrepOptions) error {
		o.Files.Dir, o.Pattern = "d", "x"
		return last(files.Grep(ctx, s.Files(), o))
	}
	lines := func(st *wire.Stream, line func(i int) files.Line) {
		var buf []byte
		path := ""
		for i := 1; ; i++ {
			l := line(i)
			buf = wire.AppendLine(buf, path, &l)
			if path = l.Path; len(buf) > 10_000 {
				if _, err := wire.WriteData(st, buf, 0); err != nil {
					return
				}
				buf = buf[:0]
			}
		}
	}
	heavy := func(i int) *wire.Job {
		j := wireJob(i, "", "exited")
		j.Args = []wire.Bytes{make([]byte, wire.MaxJobArgBytes)}
		return j
	}
	for _, tt := range []struct {
		name string
		tell func(st *wire.Stream)
		ask  func(ctx context.Context, s *guest.Session) error
	}{
		{"jobs without an end", func(st *wire.Stream) {
			jobs(st, func(i int) *wire.Job { return wireJob(i, "", "exited") })
		}, func(ctx context.Context, s *guest.Session) error { _, err := s.Jobs(ctx, spec.JobQuery{}); return err }},
		{"heavy jobs without an end", func(st *wire.Stream) {
			jobs(st, heavy)
		}, func(ctx context.Context, s *guest.Session) error { _, err := s.Jobs(ctx, spec.JobQuery{}); return err }},
		{"one job twice", func(st *wire.Stream) {
			jobs(st, func(int) *wire.Job { return wireJob(1, "", "exited") })
		}, func(ctx context.Context, s *guest.Session) error { _, err := s.Jobs(ctx, spec.JobQuery{}); return err }},
		{"a job that was not asked for", func(st *wire.Stream) {
			jobs(st, func(int) *wire.Job { return wireJob(2, "", "exited") })
		}, func(ctx context.Context, s *guest.Session) error {
			_, err := s.Jobs(ctx, spec.JobQuery{IDs: []string{"job-1"}})
			return err
		}},
		{"a job that was not to be handed over", func(st *wire.Stream) {
			jobs(st, func(int) *wire.Job { return wireJob(2, "you", "running") })
		}, func(ctx context.Context, s *guest.Session) error {
			_, err := s.HandOver(ctx, "", "you", []string{"job-1"})
			return err
		}},
		{"the start of another's job", func(st *wire.Stream) {
			reply(st, wire.Reply{Job: wireJob(1, "else", "running")})
		}, func(ctx context.Context, s *guest.Session) error {
			_, err := s.StartJob(ctx, argv("x"), spec.JobOptions{Owner: "me"})
			return err
		}},
		{"what runs without an end", func(st *wire.Stream) {
			for wire.WriteMessage(st, wire.Reply{Running: []wire.Running{{ID: strings.Repeat("x", 256), PID: 1}}}) == nil {
			}
		}, func(ctx context.Context, s *guest.Session) error { _, err := s.Running(ctx); return err }},
		{"context without an end", func(st *wire.Stream) {
			lines(st, func(i int) files.Line { return files.Line{Path: "a", Number: int64(i), Text: []byte("x")} })
		}, func(ctx context.Context, s *guest.Session) error {
			return grep(ctx, s, files.GrepOptions{Limit: 1, Context: 2})
		}},
		{"more matches than a file may have", func(st *wire.Stream) {
			lines(st, func(i int) files.Line { return files.Line{Path: "a", Number: int64(i), Text: []byte("x"), Match: true} })
		}, func(ctx context.Context, s *guest.Session) error {
			return grep(ctx, s, files.GrepOptions{LimitPerFile: 2})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tt.tell(st) })
			f.hello.Jobs = true
			s := f.open(guest.OpenOptions{Caps: spec.Caps{Jobs: spec.JobsDurable}})
			grown := watchMemory(t)
			quickly(t, 30*time.Second, "the call", func() {
				err := tt.ask(context.Background(), s)
				wantCode(t, err, spec.CodeInternal)
			})
			if n := grown(); n > 2*sessionBytes {
				t.Errorf("the host has used %d MiB more", n>>20)
			}
		})
	}
}

// A window of a log is never more than was asked for, and one that is less than its
// record promises is not taken for the whole.
func TestLogOfALiar(t *testing.T) {
	info := wire.LogInfo{FirstLine: 1, Lines: 4, Bytes: 8, Complete: true}
	for _, tt := range []struct {
		name   string
		window spec.LogWindow
		data   string
		code   spec.Code
	}{
		{"all", spec.LogWindow{}, "a\nb\nc\nd\n", ""},
		{"more than there is", spec.LogWindow{}, "a\nb\nc\nd\ne\n", spec.CodeInternal},
		{"less than there is", spec.LogWindow{}, "a\nb\n", spec.CodeUnavailable},
		{"two lines", spec.LogWindow{Lines: 2}, "a\nb\n", ""},
		{"more lines", spec.LogWindow{Lines: 2}, "a\nb\nc\n", spec.CodeInternal},
		{"half a line more", spec.LogWindow{Lines: 2}, "a\nb\nc", spec.CodeInternal},
		{"fewer lines", spec.LogWindow{Lines: 2}, "a\n", spec.CodeUnavailable},
		{"half a line less", spec.LogWindow{Lines: 2}, "a\nb", spec.CodeUnavailable},
		{"as many lines as there are", spec.LogWindow{Lines: 9}, "a\nb\nc\nd\n", ""},
		{"as many bytes", spec.LogWindow{MaxBytes: 3}, "a\nb", ""},
		{"more bytes", spec.LogWindow{MaxBytes: 3}, "a\nb\n", spec.CodeInternal},
		{"fewer bytes", spec.LogWindow{MaxBytes: 3}, "a\n", spec.CodeUnavailable},
		{"bytes before lines", spec.LogWindow{Lines: 3, MaxBytes: 3}, "a\nb", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_ = wire.WriteMessage(st, wire.Reply{Log: &info})
				_, _ = wire.WriteData(st, []byte(tt.data), 0)
				_ = wire.WriteEnd(st)
				_, _ = io.Copy(io.Discard, st)
			})
			s := f.open(guest.OpenOptions{})
			l, err := s.OpenLog(context.Background(), "", "job-1", tt.window)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			got, err := io.ReadAll(l)
			wantCode(t, err, tt.code)
			if tt.code == "" && string(got) != tt.data {
				t.Errorf("%q", got)
			}
		})
	}
}

// A directory without an end is read until the reader has enough: a collected one has
// its bound, and an iteration ends with its ctx although the guest never pauses.
func TestDirectoryWithoutAnEnd(t *testing.T) {
	entries := make([]wire.FileInfo, wire.ListBatch)
	for i := range entries {
		entries[i].Name = wire.Bytes(fmt.Sprintf("%0200d", i))
	}
	said := message(t, wire.Reply{Entries: entries})
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpStat {
			reply(st, wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes("d"), Mode: uint32(fs.ModeDir | 0o755)}})
			return
		}
		for {
			if _, err := st.Write(said); err != nil {
				return
			}
		}
	})
	s := f.open(guest.OpenOptions{})
	grown := watchMemory(t)
	quickly(t, 60*time.Second, "ReadDir", func() {
		_, err := files.ReadDir(context.Background(), s.Files(), "d", 0)
		wantCode(t, err, spec.CodeTooLarge)
	})
	quickly(t, 60*time.Second, "ReadDir of an io/fs view", func() {
		_, err := fs.ReadDir(files.NewIOFS(context.Background(), s.Files(), "/"), "d")
		if err == nil {
			t.Error("no error")
		}
	})
	if n := grown(); n > 4*sessionBytes { // what was collected, and garbage of it
		t.Errorf("the host has used %d MiB more", n>>20)
	}
	quickly(t, 5*time.Second, "List", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if err := last(s.Files().List(ctx, "d")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// A size is believed when the bytes come: a large one alone costs no memory, and more
// bytes than it are a breach.
func TestSizeOfALiar(t *testing.T) {
	for _, size := range []int64{1 << 30, math.MaxInt64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_ = wire.WriteMessage(st, wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes("a"), Size: size}})
				_, _ = io.Copy(io.Discard, st)
			})
			s := f.open(guest.OpenOptions{})
			grown := watchMemory(t)
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			_, err := files.ReadFile(ctx, s.Files(), "a", 1<<30)
			if !errors.Is(err, context.DeadlineExceeded) && spec.CodeOf(err) != spec.CodeTooLarge {
				t.Errorf("%v", err)
			}
			if n := grown(); n > sessionBytes {
				t.Errorf("the host has used %d MiB more", n>>20)
			}
		})
	}
}

// An answer that comes after its caller has left is nobody's: the next call has its
// own.
func TestLateReply(t *testing.T) {
	left := make(chan struct{})
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		name := string(req.File.Name)
		if name == "slow" {
			<-left
		}
		reply(st, wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes(name)}})
	})
	s := f.open(guest.OpenOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Files().Stat(ctx, "slow", files.StatOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(left)
	for range 20 {
		if info, err := s.Files().Stat(context.Background(), "quick", files.StatOptions{}); err != nil || info.Name != "quick" {
			t.Errorf("%+v, %v", info, err)
		}
	}
}
