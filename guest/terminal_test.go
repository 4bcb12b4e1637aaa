//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// shown takes all that a view tells to its end.
func shown(t *testing.T, v driver.Terminal) (text []byte, events []string) {
	t.Helper()
	for {
		e, err := v.Next(t.Context())
		switch {
		case err == io.EOF:
			return text, events
		case err != nil:
			t.Errorf("next: %v", err)
			return text, events
		case e.Data != nil:
			text = append(text, e.Data...)
		case e.Skipped > 0:
			events = append(events, fmt.Sprintf("skipped %d", e.Skipped))
		case e.Live:
			events = append(events, "live")
		default:
			events = append(events, fmt.Sprintf("%dx%d", e.Size.Cols, e.Size.Rows))
		}
	}
}

// Over connections that break again and again nothing is shown or typed twice or lost.
func TestTerminalOverBrokenConnections(t *testing.T) {
	p := newPlace(t)
	var dials atomic.Int64
	s := p.open(func(c io.ReadWriteCloser) io.ReadWriteCloser {
		return &cutter{ReadWriteCloser: c, left: 30_000 + 7919*(dials.Add(1)%13)}
	})
	const lines = 4000
	v, err := s.OpenTerminal(t.Context(), spec.TerminalOptions{Args: spec.Shell(fmt.Sprintf(`stty -echo; n=0; while test $n -lt %d; do read line; n=$((n+1)); echo "got $line, which is number $n of all that come"; done`, lines))})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Detach()
	typed := make(chan error, 1)
	go func() {
		for n := 0; n < lines; n += 10 {
			var p []byte
			for k := range 10 {
				p = fmt.Appendf(p, "line %d\n", n+k)
			}
			if err := v.Write(t.Context(), p); err != nil {
				typed <- err
				return
			}
		}
		typed <- nil
	}()
	text, events := shown(t, v)
	if err := <-typed; err != nil {
		t.Errorf("type: %v", err)
	}
	// What was typed before stty is echoed.
	text = text[max(bytes.Index(text, []byte("got ")), 0):]
	var want []byte
	for n := range lines {
		want = fmt.Appendf(want, "got line %d, which is number %d of all that come\r\n", n, n+1)
	}
	if !bytes.Equal(text, want) || !slices.Equal(events, []string{"80x24", "live"}) {
		t.Errorf("%d bytes, events %q; want %d", len(text), events, len(want))
	}
	if dials.Load() < 5 {
		t.Errorf("%d connections: nothing was tried", dials.Load())
	}
	if exit, err := v.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%v, %v", exit, err)
	}
}

// terminalRecord is a true record of a terminal.
func terminalRecord(n int64) *wire.Terminal {
	return &wire.Terminal{ID: wire.TerminalID(n), Name: wire.Bytes("sh"), PID: 7, Size: spec.TerminalSize{Cols: 80, Rows: 24}, StartedUnixNS: 1, OutputBytes: 5, ScrollbackBytes: 5}
}

// What a guest says of terminals is believed only where it can be true.
func TestTerminalsOfALiar(t *testing.T) {
	size := &spec.TerminalSize{Cols: 80, Rows: 24}
	first := wire.TerminalEvent{Size: size}
	view := func(parts ...any) func(st *wire.Stream, req *wire.Request) {
		return func(st *wire.Stream, req *wire.Request) {
			if req.Op == wire.OpTerminalOpen {
				reply(st, wire.Reply{Terminal: terminalRecord(1)})
				return
			}
			for _, p := range parts {
				if data, ok := p.([]byte); ok {
					_, _ = wire.WriteData(st, data, 0)
				} else {
					_ = wire.WriteMessage(st, p)
				}
			}
			_, _ = st.Read(make([]byte, 1))
		}
	}
	open := func(ctx context.Context, s *guest.Session) error {
		v, err := s.OpenTerminal(ctx, spec.TerminalOptions{})
		if err != nil {
			return err
		}
		defer v.Detach()
		for {
			if _, err := v.Next(ctx); err != nil {
				return err
			}
		}
	}
	list := func(ctx context.Context, s *guest.Session) error { _, err := s.Terminals(ctx); return err }
	kill := func(ctx context.Context, s *guest.Session) error {
		_, err := s.KillTerminal(ctx, "term-1", 0)
		return err
	}
	answer := func(rs ...wire.Reply) func(st *wire.Stream, req *wire.Request) {
		return func(st *wire.Stream, _ *wire.Request) {
			for _, r := range rs {
				_ = wire.WriteMessage(st, r)
			}
			_, _ = st.Read(make([]byte, 1))
		}
	}
	ended := terminalRecord(2)
	ended.EndedUnixNS, ended.Exit = 2, &wire.Exit{}
	for _, tt := range []struct {
		name string
		tell func(st *wire.Stream, req *wire.Request)
		ask  func(ctx context.Context, s *guest.Session) error
	}{
		{"no record", answer(wire.Reply{}), open},
		{"a view that begins with output", view([]byte("x")), open},
		{"a view without a size", view(wire.TerminalEvent{}), open},
		{"a jump", view(first, wire.TerminalEvent{At: 5}), open},
		{"a step back", view(first, []byte("abc"), wire.TerminalEvent{At: 2}), open},
		{"more skipped than there was", view(first, wire.TerminalEvent{At: 2, Skipped: 3}), open},
		{"an output that is none", view(first, wire.TerminalEvent{Restore: []byte("x")}), open},
		{"twice live", view(first, wire.TerminalEvent{Live: true}, wire.TerminalEvent{Live: true}), open},
		{"no size", view(first, wire.TerminalEvent{Size: &spec.TerminalSize{Cols: 1 << 20, Rows: 1}}), open},
		{"one twice", answer(wire.Reply{Terminal: terminalRecord(1)}, wire.Reply{Terminal: terminalRecord(1)}, wire.Reply{Done: true}), list},
		{"a list without an end", func(st *wire.Stream, _ *wire.Request) {
			for n := int64(1); wire.WriteMessage(st, wire.Reply{Terminal: terminalRecord(n)}) == nil; n++ {
			}
		}, list},
		{"a kill of what runs on", answer(wire.Reply{Terminal: terminalRecord(1)}), kill},
		{"a kill of another", answer(wire.Reply{Terminal: ended}), kill},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) { tt.tell(st, req) })
			f.hello.Terminals = true
			s := f.open(guest.OpenOptions{})
			quickly(t, 30*time.Second, "the call", func() {
				wantCode(t, tt.ask(context.Background(), s), spec.CodeInternal)
			})
		})
	}
}

// A count of what was typed that cannot be is a breach.
func TestTypingToALiar(t *testing.T) {
	f := newFake(t, func(_ *fakeConn, st *wire.Stream, req *wire.Request) {
		switch req.Op {
		case wire.OpTerminalView:
			_ = wire.WriteMessage(st, wire.TerminalEvent{Size: &spec.TerminalSize{Cols: 80, Rows: 24}})
			_, _ = st.Read(make([]byte, 1))
		case wire.OpTerminalType:
			_, _ = io.Copy(io.Discard, wire.NewDataReader(st))
			reply(st, wire.Reply{Offset: 4})
		}
	})
	f.hello.Terminals = true
	s := f.open(guest.OpenOptions{})
	v, err := s.AttachTerminal(t.Context(), "term-1")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Detach()
	wantCode(t, v.Write(t.Context(), []byte("abc")), spec.CodeInternal)
}

// A guest that has no terminals is not asked for one.
func TestGuestWithoutTerminals(t *testing.T) {
	f := newFake(t, func(*fakeConn, *wire.Stream, *wire.Request) { t.Error("it was asked") })
	s := f.open(guest.OpenOptions{})
	_, err := s.OpenTerminal(t.Context(), spec.TerminalOptions{})
	wantCode(t, err, spec.CodeUnsupported)
	_, err = s.StartJob(t.Context(), argv("x"), spec.JobOptions{Terminal: &spec.TerminalSize{}})
	wantCode(t, err, spec.CodeUnsupported)
}

// A place that stays out of reach is unavailable to every method of a view, and the view
// does not outlive its session.
func TestTerminalOutOfReach(t *testing.T) {
	var conns []*fakeConn
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if req.Op == wire.OpTerminalView {
			conns = append(conns, c)
			_ = wire.WriteMessage(st, wire.TerminalEvent{Size: &spec.TerminalSize{Cols: 80, Rows: 24}})
		}
		_, _ = st.Read(make([]byte, 1))
	})
	f.hello.Terminals = true
	s := f.open(guest.OpenOptions{})
	v, err := s.AttachTerminal(t.Context(), "term-1")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := v.Next(t.Context()); err != nil || e.Size.Cols != 80 {
		t.Errorf("%+v, %v", e, err)
	}
	conns[0].cut()
	_, err = v.Next(t.Context())
	wantCode(t, err, spec.CodeUnavailable)
	wantCode(t, v.Write(t.Context(), []byte("x")), spec.CodeUnavailable)
	wantCode(t, v.Resize(t.Context(), spec.TerminalSize{}), spec.CodeUnavailable)
	if err := s.Close(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Logf("close: %v", err)
	}
	_, err = v.Next(t.Context())
	wantCode(t, err, spec.CodeInvalid)
	if err := v.Write(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("write: %v", err)
	}
}
