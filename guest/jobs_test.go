package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func wireJob(n int, owner, state string) *wire.Job {
	j := &wire.Job{ID: wire.JobID(int64(n)), Owner: owner, Args: []wire.Bytes{wire.Bytes("x")}, State: state, StartedUnixNS: 1}
	if state != "running" {
		j.EndedUnixNS = 2
	}
	if state == "exited" {
		j.Exit = &wire.Exit{}
	}
	return j
}

// A job whose start was not confirmed is asked for again by the same request, until an
// answer comes: the guest knows by the id whether it has it already.
func TestJobStartIsAskedForAgain(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]int{}
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		mu.Lock()
		ids[req.Exec.ID]++
		mu.Unlock()
		if c.n < 4 {
			c.cut()
			return
		}
		if req.Op != wire.OpJobStart || req.Job.Owner != "me" || req.Job.StallMS != 1500 || req.Exec.Key != "k" {
			t.Errorf("asked for %+v, %+v", req.Job, req.Exec)
		}
		reply(st, wire.Reply{Job: wireJob(3, "me", "running")})
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	c := argv("x")
	c.Key = "k"
	job, err := s.StartJob(context.Background(), c, spec.JobOptions{Owner: "me", StallAfter: 1500 * time.Millisecond})
	if err != nil || job.ID != "job-3" || len(ids) != 1 {
		t.Errorf("%+v, %v, requests %v", job, err, ids)
	}
}

// A start whose answer never comes is an unknown outcome; one that was never sent is
// unavailable.
func TestJobStartIsLost(t *testing.T) {
	f := newFake(t, func(c *fakeConn, _ *wire.Stream, _ *wire.Request) { c.cut() })
	s := f.open(guest.OpenOptions{})
	_, err := s.StartJob(context.Background(), argv("x"), spec.JobOptions{})
	wantCode(t, err, spec.CodeUnknownOutcome)
	_, err = s.StartJob(context.Background(), argv("x"), spec.JobOptions{})
	wantCode(t, err, spec.CodeUnavailable)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	s = f.open(guest.OpenOptions{Redial: func(context.Context) (io.ReadWriteCloser, error) { return nil, errPlain }})
	if _, err := s.StartJob(ctx, argv("x"), spec.JobOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
}

// A wait and a kill go on over a redial, and find a job that has another owner by then.
func TestJobWaitGoesOn(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Job.Resume != (c.n > 1) || req.Job.ID != "job-5" {
			t.Errorf("connection %d: %+v", c.n, req.Job)
		}
		if c.n == 1 {
			time.Sleep(20 * time.Millisecond)
			c.cut()
			return
		}
		reply(st, wire.Reply{Job: wireJob(5, "other", "exited")})
	})
	for name, ask := range map[string]func(*guest.Session) (spec.Job, error){
		"wait": func(s *guest.Session) (spec.Job, error) { return s.WaitJob(context.Background(), "me", "job-5") },
		"kill": func(s *guest.Session) (spec.Job, error) { return s.KillJob(context.Background(), "me", "job-5", -1) },
	} {
		f.mu.Lock()
		f.dials = 0
		f.mu.Unlock()
		s := f.open(guest.OpenOptions{Redial: f.dial})
		if job, err := ask(s); err != nil || job.Owner != "other" || job.Running() {
			t.Errorf("%s: %+v, %v", name, job, err)
		}
	}
}

// A guest that answers with what cannot be is CodeInternal, and in bounded time.
func TestJobsOfAHostileGuest(t *testing.T) {
	ctx := context.Background()
	start := func(s *guest.Session) error { _, err := s.StartJob(ctx, argv("x"), spec.JobOptions{}); return err }
	wait := func(s *guest.Session) error { _, err := s.WaitJob(ctx, "", "job-1"); return err }
	kill := func(s *guest.Session) error { _, err := s.KillJob(ctx, "", "job-1", 0); return err }
	list := func(s *guest.Session) error { _, err := s.Jobs(ctx, spec.JobQuery{}); return err }
	move := func(s *guest.Session) error { _, err := s.HandOver(ctx, "", "to", nil); return err }
	one := func(v wire.Reply) func(*wire.Stream) { return func(st *wire.Stream) { reply(st, v) } }
	for name, tt := range map[string]struct {
		ask  func(*guest.Session) error
		said func(*wire.Stream)
	}{
		"start without a job":        {start, one(wire.Reply{})},
		"start of a bad record":      {start, one(wire.Reply{Job: &wire.Job{ID: "job-1"}})},
		"wait for what runs":         {wait, one(wire.Reply{Job: wireJob(1, "", "running")})},
		"wait for another":           {wait, one(wire.Reply{Job: wireJob(2, "", "exited")})},
		"kill without an end":        {kill, one(wire.Reply{Job: wireJob(1, "", "running")})},
		"a list of another owner":    {list, one(wire.Reply{Jobs: []wire.Job{*wireJob(1, "x", "running")}, Done: true})},
		"a list with an empty part":  {list, one(wire.Reply{})},
		"a hand-over to nobody":      {move, one(wire.Reply{Jobs: []wire.Job{*wireJob(1, "from", "running")}, Done: true})},
		"a list that is no message":  {list, func(st *wire.Stream) { _, _ = st.Write([]byte("garbage garbage")); _, _ = io.Copy(io.Discard, st) }},
		"a list that never ends":     {list, endless},
		"more jobs than a reply has": {list, one(wire.Reply{Jobs: make([]wire.Job, wire.JobBatch+1), Done: true})},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tt.said(st) })
			s := f.open(guest.OpenOptions{})
			quickly(t, 30*time.Second, name, func() { wantCode(t, tt.ask(s), spec.CodeInternal) })
		})
	}
}

func endless(st *wire.Stream) {
	batch := make([]wire.Job, wire.JobBatch)
	for i := range batch {
		batch[i] = *wireJob(i+1, "", "running")
	}
	for wire.WriteMessage(st, wire.Reply{Jobs: batch}) == nil {
	}
}

// logText is a log of numbered lines.
func logText(lines int) []byte {
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.Bytes()
}

// A log goes on over redials at the byte that it has reached, within what is left of the
// window.
func TestLogGoesOn(t *testing.T) {
	text := logText(1000)
	var mu sync.Mutex
	var asked []wire.LogWindow
	reached := make(chan struct{}, 1)
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		w := *req.Job.Window
		mu.Lock()
		asked = append(asked, w)
		mu.Unlock()
		first := int64(bytes.Count(text[:w.Offset], []byte("\n"))) + 1
		_ = wire.WriteMessage(st, wire.Reply{Log: &wire.LogInfo{FirstLine: first, Offset: w.Offset, Lines: 1000, Bytes: int64(len(text))}})
		end := int64(len(text))
		if w.MaxBytes > 0 {
			end = w.Offset + w.MaxBytes
		}
		if c.n < 4 {
			_, _ = wire.WriteData(st, text[w.Offset:w.Offset+1001], 100)
			if c.n == 1 {
				<-reached
			}
			time.Sleep(20 * time.Millisecond) // so that more of it gets through
			c.cut()
			return
		}
		_, _ = wire.WriteData(st, text[w.Offset:end], 0)
		_ = wire.WriteEnd(st)
		_, _ = io.Copy(io.Discard, st)
	})
	for _, w := range []spec.LogWindow{{}, {MaxBytes: 5000}, {Follow: true}} {
		f.mu.Lock()
		f.dials = 0
		f.mu.Unlock()
		s := f.open(guest.OpenOptions{Redial: f.dial})
		log, err := s.OpenLog(context.Background(), "", "job-1", w)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1)
		if _, err := io.ReadFull(log, first); err != nil {
			t.Fatal(err)
		}
		reached <- struct{}{}
		got, err := io.ReadAll(log)
		got = append(first, got...)
		log.Close()
		want := text
		if w.MaxBytes > 0 {
			want = text[:w.MaxBytes]
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, %v; want %d", w, len(got), err, len(want))
		}
	}
	if len(asked) != 12 || asked[1].Offset == 0 || asked[5].MaxBytes != 5000-asked[5].Offset || !asked[9].Follow || asked[9].MaxBytes != 0 {
		t.Errorf("asked for %+v", asked)
	}
}

// A log that is not what its record says, or not what was asked for, is an error: never
// short, never long.
func TestLogOfAHostileGuest(t *testing.T) {
	send := func(info *wire.LogInfo, data string, end bool) func(*wire.Stream) {
		return func(st *wire.Stream) {
			_ = wire.WriteMessage(st, wire.Reply{Log: info})
			_, _ = wire.WriteData(st, []byte(data), 0)
			if end {
				_ = wire.WriteEnd(st)
			}
			_, _ = io.Copy(io.Discard, st)
		}
	}
	whole := &wire.LogInfo{FirstLine: 1, Lines: 2, Bytes: 4}
	for name, tt := range map[string]struct {
		window spec.LogWindow
		said   func(*wire.Stream)
		code   spec.Code
		text   string
	}{
		"as it is":             {spec.LogWindow{}, send(whole, "a\nb\n", true), "", "a\nb\n"},
		"no record":            {spec.LogWindow{}, send(nil, "", true), spec.CodeInternal, ""},
		"an impossible record": {spec.LogWindow{}, send(&wire.LogInfo{FirstLine: -1}, "", true), spec.CodeInternal, ""},
		"another line":         {spec.LogWindow{From: 2}, send(whole, "a\nb\n", true), spec.CodeInternal, ""},
		"another offset":       {spec.LogWindow{Offset: 3}, send(whole, "a\nb\n", true), spec.CodeInternal, ""},
		"cut":                  {spec.LogWindow{}, send(whole, "a\n", true), spec.CodeUnavailable, "a\n"},
		"longer":               {spec.LogWindow{}, send(whole, "a\nb\nc", true), spec.CodeInternal, ""},
		"more than asked for":  {spec.LogWindow{MaxBytes: 2, Follow: true}, send(whole, "a\nb\n", true), spec.CodeInternal, ""},
		"an error among it":    {spec.LogWindow{Follow: true}, func(st *wire.Stream) { send(whole, "a\n", false)(st) }, spec.CodeInternal, "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				if name == "an error among it" {
					_ = wire.WriteMessage(st, wire.Reply{Log: whole})
					_, _ = wire.WriteData(st, []byte("a\n"), 0)
					_ = wire.WriteMessage(st, wire.Reply{})
					_, _ = io.Copy(io.Discard, st)
					return
				}
				tt.said(st)
			})
			s := f.open(guest.OpenOptions{})
			log, err := s.OpenLog(context.Background(), "", "job-1", tt.window)
			var got []byte
			if err == nil {
				defer log.Close()
				got, err = io.ReadAll(log)
			}
			wantCode(t, err, tt.code)
			if tt.text != "" && string(got) != tt.text {
				t.Errorf("read %q", got)
			}
		})
	}
	t.Run("more lines", func(t *testing.T) {
		f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
			_ = wire.WriteMessage(st, wire.Reply{Log: whole})
			for _, line := range []string{"a\n", "b\n"} {
				_, _ = wire.WriteData(st, []byte(line), 0)
			}
			_ = wire.WriteEnd(st)
			_, _ = io.Copy(io.Discard, st)
		})
		log, err := f.open(guest.OpenOptions{}).OpenLog(context.Background(), "", "job-1", spec.LogWindow{Lines: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		_, err = io.ReadAll(log)
		wantCode(t, err, spec.CodeInternal)
	})
}

// Close ends a Read that waits, and the log's stream.
func TestLogClosed(t *testing.T) {
	ended := make(chan struct{})
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		_ = wire.WriteMessage(st, wire.Reply{Log: &wire.LogInfo{FirstLine: 1}})
		_, _ = io.Copy(io.Discard, st)
		close(ended)
	})
	log, err := f.open(guest.OpenOptions{}).OpenLog(context.Background(), "", "job-1", spec.LogWindow{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { log.Close() })
	_, err = log.Read(make([]byte, 10))
	wantCode(t, err, spec.CodeInvalid)
	quickly(t, 5*time.Second, "the end of the stream", func() { <-ended })
}

// teller is an owner that is told of events.
type teller struct {
	mu   sync.Mutex
	told []string
}

func (o *teller) tell(e spec.JobEvent) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, e.Job.ID)
	return nil
}

func endOf(n int) *wire.JobEvent {
	return &wire.JobEvent{Seq: fmt.Sprint(n), Kind: "ended", Job: wireJob(n, "me", "exited")}
}

// Events go on over a redial. One whose acknowledgement was lost comes again, is not told
// again and is acknowledged; a listener that has been taken over from ends.
func TestEventsGoOn(t *testing.T) {
	acked := make(chan string, 10)
	listeners := make(chan wire.JobRequest, 10)
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		listeners <- *req.Job
		if c.n == 3 {
			reply(st, wire.Reply{Err: wire.FromError(spec.New(spec.CodeStaleOwner, "another"))})
			return
		}
		_ = wire.WriteMessage(st, wire.Reply{})
		for n := c.n; n < c.n+3; n++ {
			_ = wire.WriteMessage(st, endOf(n))
			var ack wire.JobAck
			if wire.ReadMessage(st, &ack, 0) != nil {
				return
			}
			if n != 3 || c.n == 2 { // the first connection loses the acknowledgement of its third
				acked <- ack.Seq
			}
		}
		c.cut()
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	var owner teller
	err := s.JobEvents(context.Background(), "me", owner.tell)
	wantCode(t, err, spec.CodeStaleOwner)
	if want := []string{"job-1", "job-2", "job-3", "job-4"}; !slices.Equal(owner.told, want) {
		t.Errorf("told of %v, want %v", owner.told, want)
	}
	close(acked)
	var seqs []string
	for seq := range acked {
		seqs = append(seqs, seq)
	}
	if want := []string{"1", "2", "2", "3", "4"}; !slices.Equal(seqs, want) {
		t.Errorf("acknowledged %v, want %v", seqs, want)
	}
	first, second := <-listeners, <-listeners
	if first.Resume || !second.Resume || first.Listener == "" || first.Listener != second.Listener {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// An event that the owner refuses is not acknowledged, and its error is the answer.
func TestEventRefused(t *testing.T) {
	said := make(chan error, 1)
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		_ = wire.WriteMessage(st, wire.Reply{})
		_ = wire.WriteMessage(st, endOf(1))
		said <- wire.ReadMessage(st, new(wire.JobAck), 0)
	})
	err := f.open(guest.OpenOptions{}).JobEvents(context.Background(), "me", func(spec.JobEvent) error { return errPlain })
	if !errors.Is(err, errPlain) {
		t.Errorf("%v", err)
	}
	if err := <-said; err == nil {
		t.Error("it is acknowledged")
	}
}

// A listener that is taken over from tells nothing more, though events are on their way.
func TestEventsTakenOver(t *testing.T) {
	acks := make(chan int, 1)
	telling := make(chan struct{})
	sent := make(chan struct{})
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
		_ = wire.WriteMessage(st, wire.Reply{})
		for n := range 10 {
			_ = wire.WriteMessage(st, endOf(n+1))
		}
		<-telling
		_ = wire.WriteMessage(st, &wire.JobEvent{Err: wire.FromError(spec.New(spec.CodeStaleOwner, "another"))})
		time.Sleep(500 * time.Millisecond) // until the host has it
		close(sent)
		n := 0
		for ; wire.ReadMessage(st, new(wire.JobAck), 0) == nil; n++ {
		}
		acks <- n
	})
	told := 0
	err := f.open(guest.OpenOptions{}).JobEvents(context.Background(), "me", func(spec.JobEvent) error {
		if told++; told == 1 {
			close(telling)
			<-sent
		}
		return nil
	})
	wantCode(t, err, spec.CodeStaleOwner)
	if n := <-acks; n != told || told > 2 {
		t.Errorf("told of %d events, acknowledged %d", told, n)
	}
}

// Events that cannot be, or are too many, are a breach.
func TestEventsOfAHostileGuest(t *testing.T) {
	stranger := endOf(1)
	stranger.Job.Owner = "other"
	for name, said := range map[string]func(*wire.Stream){
		"another owner's": func(st *wire.Stream) { _ = wire.WriteMessage(st, stranger) },
		"empty":           func(st *wire.Stream) { _ = wire.WriteMessage(st, wire.JobEvent{}) },
		"no message":      func(st *wire.Stream) { _, _ = st.Write([]byte("garbage garbage")) },
		"too large":       func(st *wire.Stream) { _ = wire.WriteMessage(st, bytes.Repeat([]byte("x"), 1<<20)) },
		"a flood": func(st *wire.Stream) {
			for n := 1; wire.WriteMessage(st, endOf(n)) == nil; n++ {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				_ = wire.WriteMessage(st, wire.Reply{})
				said(st)
				_, _ = io.Copy(io.Discard, st)
			})
			s := f.open(guest.OpenOptions{})
			quickly(t, 20*time.Second, name, func() {
				err := s.JobEvents(context.Background(), "me", func(spec.JobEvent) error {
					time.Sleep(time.Millisecond)
					return nil
				})
				wantCode(t, err, spec.CodeInternal)
			})
		})
	}
}

// A cancelled listener returns at once, though the place is out of reach.
func TestEventsCancelled(t *testing.T) {
	f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) { c.cut() })
	s := f.open(guest.OpenOptions{Redial: func(context.Context) (io.ReadWriteCloser, error) { return nil, errPlain }})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	quickly(t, 5*time.Second, "a cancelled listener", func() {
		if err := s.JobEvents(ctx, "me", func(spec.JobEvent) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
