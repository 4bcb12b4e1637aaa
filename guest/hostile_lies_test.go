package guest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/race"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// What a session may cost, whatever its guest says, beside what its callers have asked
// for; see the package's comment.
const sessionBytes = 32 << 20

// question is something that a caller asks of a guest.
type question struct {
	name string
	ask  func(ctx context.Context, s *guest.Session) error
	// bare: any reply that is no error is an honest answer.
	bare bool
	// command: its answer comes as an event.
	command bool
}

// last returns the error that a sequence ends with, and fails one that has no end of
// its own after so many.
func last[T any](seq iter.Seq2[T, error]) (err error) {
	for _, err = range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func readAll(r io.ReadCloser, err error) error {
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// questions are all that a session can be asked: one for each operation of the wire.
func questions() []question {
	start := func(ctx context.Context, s *guest.Session, io driver.Stdio) error {
		p, err := s.Start(ctx, argv("x"), io)
		if err == nil {
			_, err = p.Wait(ctx)
		}
		return err
	}
	in := func() io.Reader { return strings.NewReader("input") }
	batch := func(yield func(files.BatchFile, error) bool) {
		yield(files.BatchFile{Name: "a", Size: 5, Src: in()}, nil)
	}
	job := func(_ spec.Job, err error) error { return err }
	jobs := func(_ []spec.Job, err error) error { return err }
	ids := []string{"job-1"}
	return []question{
		{name: "ping", bare: true, ask: func(ctx context.Context, s *guest.Session) error { return s.Ping(ctx) }},
		{name: "status", ask: func(ctx context.Context, s *guest.Session) error { _, err := s.Status(ctx); return err }},
		{name: "exec", command: true, ask: func(ctx context.Context, s *guest.Session) error { return start(ctx, s, driver.Stdio{}) }},
		{name: "exec with streams", command: true, ask: func(ctx context.Context, s *guest.Session) error {
			return start(ctx, s, driver.Stdio{Stdin: in(), Stdout: io.Discard, Stderr: io.Discard})
		}},
		{name: "open", ask: func(ctx context.Context, s *guest.Session) error {
			f, err := s.Files().Open(ctx, "a", files.OpenOptions{})
			return readAll(f, err)
		}},
		{name: "read", ask: func(ctx context.Context, s *guest.Session) error {
			_, err := files.ReadFile(ctx, s.Files(), "a", 0)
			return err
		}},
		{name: "write", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return s.Files().Write(ctx, "a", in(), 5, files.WriteOptions{})
		}},
		{name: "batch", ask: func(ctx context.Context, s *guest.Session) error {
			_, err := files.WriteBatch(ctx, s.Files(), batch, files.BatchOptions{})
			return err
		}},
		{name: "stat", ask: func(ctx context.Context, s *guest.Session) error {
			_, err := s.Files().Stat(ctx, "a", files.StatOptions{})
			return err
		}},
		{name: "list", ask: func(ctx context.Context, s *guest.Session) error { return last(s.Files().List(ctx, "a")) }},
		{name: "glob", ask: func(ctx context.Context, s *guest.Session) error {
			return last(files.Glob(ctx, s.Files(), files.GlobOptions{Dir: "a", Metadata: true}))
		}},
		{name: "grep", ask: func(ctx context.Context, s *guest.Session) error {
			return last(files.Grep(ctx, s.Files(), files.GrepOptions{Files: files.GlobOptions{Dir: "a"}, Pattern: "x"}))
		}},
		{name: "mkdir", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return s.Files().Mkdir(ctx, "a", files.MkdirOptions{})
		}},
		{name: "remove", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return s.Files().Remove(ctx, "a", files.RemoveOptions{})
		}},
		{name: "rename", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return s.Files().Rename(ctx, "a", "b", files.RenameOptions{})
		}},
		{name: "copy", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return files.Copy(ctx, s.Files(), "a", "b", files.CopyOptions{})
		}},
		{name: "chmod", bare: true, ask: func(ctx context.Context, s *guest.Session) error {
			return s.Files().(files.Chmodder).Chmod(ctx, "a", 0o600)
		}},
		{name: "resolve", ask: func(ctx context.Context, s *guest.Session) error {
			_, err := s.Files().(files.Resolver).Resolve(ctx, "a")
			return err
		}},
		{name: "job start", ask: func(ctx context.Context, s *guest.Session) error {
			return job(s.StartJob(ctx, argv("x"), spec.JobOptions{}))
		}},
		{name: "job list", ask: func(ctx context.Context, s *guest.Session) error { return jobs(s.Jobs(ctx, spec.JobQuery{IDs: ids})) }},
		{name: "job wait", ask: func(ctx context.Context, s *guest.Session) error { return job(s.WaitJob(ctx, "", ids[0])) }},
		{name: "job kill", ask: func(ctx context.Context, s *guest.Session) error { return job(s.KillJob(ctx, "", ids[0], -1)) }},
		{name: "job log", ask: func(ctx context.Context, s *guest.Session) error {
			l, err := s.OpenLog(ctx, "", ids[0], spec.LogWindow{})
			return readAll(l, err)
		}},
		{name: "job hand over", ask: func(ctx context.Context, s *guest.Session) error { return jobs(s.HandOver(ctx, "", "you", ids)) }},
		{name: "job events", ask: func(ctx context.Context, s *guest.Session) error {
			return s.JobEvents(ctx, "", func(spec.JobEvent) error { return nil })
		}},
		{name: "terminate", ask: func(ctx context.Context, s *guest.Session) error {
			_, err := s.Terminate(ctx, "k", -1)
			return err
		}},
		{name: "running", ask: func(ctx context.Context, s *guest.Session) error { _, err := s.Running(ctx); return err }},
	}
}

// lie is what a guest answers to any question.
type lie struct {
	name string
	tell func(st *wire.Stream)
	// silent: the guest keeps the caller waiting, whose ctx ends the call.
	silent bool
	// reply: it is an honest answer to questions that have a bare one.
	reply bool
}

// text is a lie that is one message, as it stands.
func text(name, s string) lie { return raw(name, frame(wire.FrameJSON, uint32(len(s)), s)...) }

// raw is a lie that is said as it stands.
func raw(name string, b ...byte) lie {
	return lie{name: name, tell: func(st *wire.Stream) {
		_, _ = st.Write(b)
		_, _ = io.Copy(io.Discard, st)
	}}
}

func frame(kind byte, size uint32, body string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, size), body...)
}

// over says the same again and again.
func over(name string, said []byte) lie {
	many := bytes.Repeat(said, 1+(32<<10)/len(said))
	return lie{name: name, tell: func(st *wire.Stream) {
		for {
			if _, err := st.Write(many); err != nil {
				return
			}
		}
	}}
}

func message(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := wire.WriteMessage(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// lies are those that fit no question at all, and for each question's honest reply that
// to another one.
func lies(t *testing.T) []lie {
	late := func(l lie) lie { l.silent = true; return l }
	bare := func(l lie) lie { l.reply = true; return l }
	entries := make([]wire.FileInfo, wire.ListBatch)
	for i := range entries {
		entries[i].Name = wire.Bytes("name")
	}
	reply := func(name string, r wire.Reply) lie {
		said := message(t, r)
		return bare(raw(name, said...))
	}
	return []lie{
		late(raw("nothing")),
		{name: "the end", tell: func(*wire.Stream) {}},
		raw("a frame of no kind", 0, 0, 0, 0, 0),
		raw("4 GiB of message", frame(wire.FrameJSON, 1<<32-1, "")...),
		raw("4 GiB of data", frame(wire.FrameData, 1<<32-1, "")...),
		raw("an end that is none", frame(wire.FrameEnd, 1<<32-1, "")...),
		raw("data without data", frame(wire.FrameData, 0, "")...),
		late(raw("half a header", wire.FrameJSON, 0)),
		late(raw("half a message", frame(wire.FrameJSON, 400, `{"status":{`)...)),
		text("no JSON", "sh: not found"),
		text("an open text", `{"err":{"text":"`),
		text("brackets", strings.Repeat("[", 400_000)),
		text("2 MiB of brackets", strings.Repeat("[", wire.MaxMessageBytes)),
		bare(text("deep nesting", strings.Repeat(`{"info":`, 5_000)+"1"+strings.Repeat("}", 5_000))),
		text("a number over all bounds", `{"offset":1e999,"landed":1e999,"ack":1e999}`),
		text("a hundred thousand entries", `{"entries":[`+strings.Repeat("0,", 100_000)+`0]}`),
		text("a hundred thousand jobs", `{"jobs":[`+strings.Repeat("0,", 100_000)+`0]}`),
		bare(text("many survivors", `{"exit":{"survivors":[`+strings.Repeat("0,", 20_000)+`0]}}`)),
		text("the wrong types", `{"err":5,"info":"x","entries":{},"status":[],"job":7,"exit":"0","started":[]}`),
		text("an error of no code", `{"err":{"code":"ok","text":"\u001b[31m"}}`),
		text("an error of everything", `{"err":{},"started":{},"exit":{},"info":{},"status":{},"job":{},"log":{}}`),
		text("invalid UTF-8", "{\"err\":{\"code\":\"\xff\xfe\",\"text\":\"\xc3\x28\"}}"),
		bare(text("nothing in it", `{}`)),
		bare(text("null", `null`)),
		bare(text("a future's field", `{"verdict":{"all":["is","well"]}}`)),
		bare(text("duplicate keys", `{"landed":1,"landed":0,"entries":[{}],"entries":null,"jobs":[{}],"jobs":[]}`)),
		reply("the record of no file", wire.Reply{Info: &wire.FileInfo{Name: wire.Bytes("../etc/passwd"), Size: -1}}),
		reply("a status only", wire.Reply{Landed: -3}),
		reply("a job that is none", wire.Reply{Job: &wire.Job{ID: "job-0", State: "exited"}, Jobs: []wire.Job{{}}}),
		reply("a job of somebody else", wire.Reply{Job: wireJob(9, "else", "exited"), Jobs: []wire.Job{*wireJob(9, "else", "exited")}}),
		reply("what no kernel says", wire.Reply{Kill: "certainly", Running: []wire.Running{{PID: 0}}, Log: &wire.LogInfo{}}),
		bare(over("bare replies without an end", message(t, wire.Reply{Name: wire.Bytes("../x")}))),
		bare(over("acknowledgements without an end", message(t, wire.Event{Ack: 1 << 60}))),
		bare(over("entries without an end", message(t, wire.Reply{Entries: entries}))),
		bare(over("jobs without an end", message(t, wire.Reply{Jobs: []wire.Job{*wireJob(1, "", "exited"), *wireJob(2, "", "exited")}}))),
		bare(over("what runs without an end", message(t, wire.Reply{Running: []wire.Running{{ID: "x", PID: 1}}}))),
		over("data without an end", frame(wire.FrameData, 1000, strings.Repeat("\x00", 1000))),
		over("noise", []byte(strings.Repeat("\xff\x01J\x00D", 1000))),
	}
}

// Whatever a guest says to whatever it is asked, the caller has an error that has a
// code, or that of its context once that has ended, promptly; the host keeps its bounds
// of memory, and nothing is left behind.
func TestLies(t *testing.T) {
	const (
		patience = 300 * time.Millisecond // of a caller whose guest keeps it waiting
		prompt   = 10 * time.Second       // for all questions at once, on a small machine
	)
	for _, l := range lies(t) {
		t.Run(l.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { l.tell(st) })
			f.hello.Jobs, f.hello.Minor = true, wire.Minor
			s := f.open(guest.OpenOptions{Caps: spec.Caps{Jobs: spec.JobsDurable}})
			grown := watchMemory(t)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			var wg sync.WaitGroup
			began := time.Now()
			for _, q := range questions() {
				wg.Go(func() {
					// An endless answer of the right kind goes on until the caller has enough.
					err := q.ask(ctx, s)
					switch {
					case err == nil:
						if !l.reply || !q.bare {
							t.Errorf("%s: no error", q.name)
						}
					case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
					case spec.CodeOf(err) == "":
						t.Errorf("%s: an error without a code: %v", q.name, err)
					case l.silent:
						t.Errorf("%s: %v; want the context's error", q.name, err)
					}
				})
			}
			quickly(t, patience+prompt, "all questions", wg.Wait)
			t.Logf("%v, %d KiB", time.Since(began).Round(time.Millisecond), grown()>>10)
			if n := grown(); n > sessionBytes {
				t.Errorf("the host has used %d MiB more", n>>20)
			}
			quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
		})
	}
}

// watchMemory returns what tells how far the heap has grown at most since then. A
// flood's own buffers are in it, since the guest is in this process.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	old := debug.SetGCPercent(20)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapAlloc
	var mu sync.Mutex
	var most uint64
	look := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > base {
			most = max(most, m.HeapAlloc-base)
		}
		return most
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		debug.SetGCPercent(old)
	})
	return func() uint64 { return look() / race.MemoryFactor }
}
