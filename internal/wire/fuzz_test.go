package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// fuzzTimeout is how long one input may take: nothing that a peer sends makes the
// other side wait for more than its end.
const fuzzTimeout = 20 * time.Second

// FuzzReadMessage: whatever comes is a message or an error, in bounded memory.
func FuzzReadMessage(f *testing.F) {
	f.Add(frame('J', 13, `{"op":"ping"}`))
	f.Add(frame('J', wire.MaxMessageBytes, ""))
	f.Add(frame('D', 3, "abc"))
	f.Add(append(frame('D', 3, "abc"), frame('E', 0, "")...))
	f.Fuzz(func(t *testing.T, in []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = wire.ReadMessage(bytes.NewReader(in), new(wire.Request), 0)
		_ = wire.ReadMessage(bytes.NewReader(in), new(wire.Event), 0)
		_, _ = wire.ReadReply(bytes.NewReader(in))
		n, err := io.Copy(io.Discard, wire.NewDataReader(bytes.NewReader(in)))
		if int(n) > len(in) {
			t.Errorf("%d bytes of data in %d bytes", n, len(in))
		}
		if err == nil && !bytes.Contains(in, []byte{wire.FrameEnd, 0, 0, 0, 0}) {
			t.Errorf("data without an end looks complete")
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20+uint64(50*len(in)) {
			t.Errorf("%d bytes of input cost %d bytes of memory", len(in), grown)
		}
	})
}

// FuzzReply: whatever a guest replies, what is taken of it can be true.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		`{"info":{"name":"YQ==","size":-1,"uid":-5}}`, `{"entries":[{"name":"Li4="},{"name":"L2E="}],"done":true}`,
		`{"job":{"id":"job-1","state":"exited","exit":{"signal":9}}}`, `{"log":{"first_line":1,"offset":9}}`,
		`{"running":[{"id":"x","pid":0}]}`, `{"err":{"code":"ok","errno":-2,"text":"x"},"landed":-1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		in := frame('J', uint32(len(text)), string(text))
		if landed, err := wire.ReadBatchReply(bytes.NewReader(in)); landed < 0 {
			t.Errorf("%d files landed, %v", landed, err)
		}
		r, err := wire.ReadReply(bytes.NewReader(in))
		if err != nil {
			return
		}
		for _, e := range append(r.Entries, wire.FileInfo{Name: r.Name}) {
			if info, err := e.Files(); err == nil && (info.Name == ".." || info.Name != "/" && strings.ContainsAny(info.Name, "/\x00") || info.Size < 0 || info.UID < 0) {
				t.Errorf("file %+v", info)
			}
		}
		if r.Job != nil {
			r.Jobs = append(r.Jobs, *r.Job)
		}
		for _, j := range r.Jobs {
			if job, err := j.Spec(); err == nil && (job.Running() != job.Ended.IsZero() || job.Exit.Signal > 0 && job.Exit.Code == 0) {
				t.Errorf("job %+v", job)
			}
		}
		for _, c := range r.Running {
			if run, err := c.Spec(); err == nil && (run.PID <= 0 || run.Started.Before(time.Unix(0, 0))) {
				t.Errorf("command %+v", run)
			}
		}
		if r.Log != nil {
			if l, err := r.Log.Spec(); err == nil && (l.Offset < 0 || l.Offset > l.Bytes || l.FirstLine > l.Lines+1) {
				t.Errorf("log %+v", l)
			}
		}
	})
}

// FuzzEvents: whatever a guest says of a command or to a listener, what is taken of it
// can be true.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"exit":{"code":0,"stdout_bytes":-1,"host_executable":["eA=="],"out_of_memory":{"limit_bytes":-1}}}`))
	f.Add([]byte(`{"events":[{"seq":1,"kind":"missed","count":2},{"seq":2,"kind":"command_ended","exit":{"code":1}}]}`))
	f.Add([]byte(`{"seq":"1","kind":"ended","job":{"id":"job-1","state":"running"},"stalled_ns":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := frame('J', uint32(len(text)), string(text))
		var e wire.Event
		if wire.ReadMessage(bytes.NewReader(in), &e, wire.MaxJobEventBytes) == nil && e.Exit != nil {
			if x, err := e.Exit.Spec(); err == nil && (x.Code < 0 || x.Signal > 0 && x.Code != 128+x.Signal || min(x.StdoutBytes, x.StderrBytes) < 0 || x.Duration < 0) {
				t.Errorf("exit %+v", x)
			}
		}
		var b wire.EventBatch
		if wire.ReadMessage(bytes.NewReader(in), &b, wire.MaxEventBatchBytes) == nil {
			for _, said := range b.Events {
				if e, err := said.Spec(); err == nil && (e.Seq < 1 || e.Count < 0 || e.Kind == "" || e.Kind == spec.EventMissed && e.Count > e.Seq) {
					t.Errorf("event %+v", e)
				}
			}
		}
		var j wire.JobEvent
		if wire.ReadMessage(bytes.NewReader(in), &j, wire.MaxJobEventBytes) == nil {
			if ev, err := j.Spec(); err == nil && ((ev.Kind == spec.JobEnded) == ev.Job.Running() || ev.StalledFor < 0) {
				t.Errorf("event %+v", ev)
			}
		}
	})
}

// FuzzHello: whatever a peer says first is a hello or an error, on both sides.
func FuzzHello(f *testing.F) {
	f.Add([]byte("sh: berth-guest: not found\n"))
	f.Add(helloFrame(`{"major":1,"os":"linux"}`))
	f.Add(helloFrame(`{"major":1,"err":{"code":"stale_owner"}}`))
	f.Add([]byte("BRTH\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), fuzzTimeout)
		defer cancel()
		g, err := wire.SendHello(ctx, &script{r: bytes.NewReader(in)}, wire.HostHello{})
		if ctx.Err() != nil {
			t.Errorf("the host waits for more than the end")
		}
		if (g == nil) == (err == nil) {
			t.Errorf("the host gets %v and %v", g, err)
		}
		h, err := wire.AcceptHello(&script{r: bytes.NewReader(in)}, func(h *wire.HostHello) (*wire.GuestHello, error) {
			_ = h.Profile.WithDefaults()
			return &wire.GuestHello{}, nil
		})
		if h == nil && err == nil {
			t.Errorf("the guest gets neither a hello nor an error")
		}
	})
}

// script is a peer that says what it is given and takes everything.
type script struct{ r io.Reader }

func (s *script) Read(p []byte) (int, error) { return s.r.Read(p) }
func (*script) Write(p []byte) (int, error)  { return len(p), nil }
func (*script) Close() error                 { return nil }

// hostUse does what a host does on a connection to a guest of whom it knows nothing:
// every kind of read that there is, each of which must end.
func hostUse(ctx context.Context, conn io.ReadWriteCloser) {
	m, err := wire.HostMux(conn, wire.Local())
	if err != nil {
		return
	}
	defer m.Close()
	for _, use := range []func(*wire.Stream){
		func(s *wire.Stream) {
			if r, err := wire.ReadReply(s); err == nil {
				for _, e := range r.Entries {
					_, _ = e.Files()
				}
				if r.Info != nil {
					_, _ = r.Info.Files()
				}
			}
		},
		func(s *wire.Stream) { _, _ = io.Copy(io.Discard, wire.NewDataReader(s)) },
		func(s *wire.Stream) {
			for {
				var e wire.Event
				if wire.ReadMessage(s, &e, 0) != nil {
					return
				}
				if e.Exit != nil {
					_, _ = e.Exit.Spec()
				}
				if e.Err != nil {
					_ = e.Err.Spec().Error()
				}
			}
		},
	} {
		s, err := m.Open(&wire.Request{Op: wire.OpPing})
		if err != nil {
			return
		}
		stop := s.Bind(ctx)
		use(s)
		stop()
		s.Close()
	}
}

// within fails a call that takes longer than an input may.
func within(t *testing.T, what string, call func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fuzzTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call(ctx)
	}()
	select {
	case <-done:
	case <-time.After(2 * fuzzTimeout):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s does not end:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
	if ctx.Err() != nil {
		t.Errorf("%s takes longer than %v", what, fuzzTimeout)
	}
}

// FuzzHostAgainstGarbageGuest lets a host talk to a guest that says anything: on
// the bare connection (raw), or on proper streams.
func FuzzHostAgainstGarbageGuest(f *testing.F) {
	f.Add(true, []byte("garbage"))
	f.Add(true, []byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0})                            // a probe
	f.Add(true, []byte{0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0})                            // a stream
	f.Add(true, []byte{0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0}) // a strange end
	f.Add(false, frame('J', 2, "{}"))
	f.Add(false, frame('D', 5, "hello"))
	f.Add(false, frame('J', 40, `{"exit":{"code":0,"stdout_bytes":-1}}   `))
	f.Add(false, frame('J', 1<<31, ""))
	f.Fuzz(func(t *testing.T, raw bool, said []byte) {
		host, guest := net.Pipe()
		go func() {
			defer guest.Close()
			if raw {
				go func() { _, _ = io.Copy(io.Discard, guest) }()
				_, _ = guest.Write(said)
				return
			}
			sayOnStreams(guest, said)
		}()
		within(t, "a host", func(ctx context.Context) { hostUse(ctx, host) })
	})
}

// sayOnStreams answers the host's streams with what is given, and ends each.
func sayOnStreams(conn net.Conn, said []byte) {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.LogOutput = false, io.Discard
	s, err := yamux.Server(conn, c)
	if err != nil {
		return
	}
	defer s.Close()
	for {
		st, err := s.AcceptStream()
		if err != nil {
			return
		}
		_, _ = st.Write(said)
		_ = st.Close()
	}
}

// FuzzGuestAgainstGarbageHost lets a guest listen to a host that says anything.
func FuzzGuestAgainstGarbageHost(f *testing.F) {
	request, err := json.Marshal(wire.Request{Op: wire.OpExec, Exec: &wire.ExecRequest{ID: "x", Args: []wire.Bytes{[]byte("true")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, []byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(true, append(helloFrame(`{"major":1}`), 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0))
	f.Add(false, frame('J', uint32(len(request)), string(request)))
	f.Add(false, frame('J', 1<<31, ""))
	f.Add(false, frame('D', 1, "x"))
	f.Fuzz(func(t *testing.T, raw bool, said []byte) {
		host, guest := net.Pipe()
		go func() {
			defer host.Close()
			go func() {
				if raw {
					_, _ = io.Copy(io.Discard, host)
				}
			}()
			if raw {
				_, _ = host.Write(said)
				return
			}
			speakStreams(host, said)
		}()
		within(t, "a guest", func(ctx context.Context) { guestUse(ctx, guest) })
	})
}

// guestUse does what a guest does on a connection, without acting on it.
func guestUse(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	h, err := wire.AcceptHello(conn, func(*wire.HostHello) (*wire.GuestHello, error) { return &wire.GuestHello{}, nil })
	if err != nil {
		return
	}
	m, err := wire.GuestMux(conn, h.Profile)
	if err != nil {
		return
	}
	defer m.Close()
	for {
		s, err := m.Accept()
		if err != nil {
			return
		}
		stop := s.Bind(ctx)
		var req wire.Request
		if wire.ReadMessage(s, &req, 0) == nil {
			_, _ = io.Copy(io.Discard, wire.NewDataReader(s))
		}
		stop()
		s.Close()
	}
}

// speakStreams says hello properly, then anything on each of a few streams.
func speakStreams(conn net.Conn, said []byte) {
	if _, err := conn.Write(helloFrame(`{"major":1}`)); err != nil {
		return
	}
	_ = readHelloFrame(conn)
	c := yamux.DefaultConfig()
	c.EnableKeepAlive, c.LogOutput = false, io.Discard
	s, err := yamux.Client(conn, c)
	if err != nil {
		return
	}
	defer s.Close()
	for range 3 {
		st, err := s.OpenStream()
		if err != nil {
			return
		}
		_, _ = st.Write(said)
		_ = st.Close()
		_, _ = io.Copy(io.Discard, st)
	}
}
