package wire_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// stuckPair is a host whose guest takes nothing once the host has filled the way to it, and
// sends what it is told to.
func stuckPair(t *testing.T, p wire.Profile) (m *wire.Mux, guest net.Conn) {
	t.Helper()
	host, guest := net.Pipe() // which holds nothing
	m, err := wire.HostMux(host, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		guest.Close()
	})
	return m, guest
}

// widen has the guest allow the host to send much on a stream; what it may at first fits into
// the memory that may be filled.
func widen(t *testing.T, guest net.Conn, s *wire.Stream) {
	t.Helper()
	if _, err := guest.Write([]byte{0, 1, 0, 2, 0, 0, 0, byte(s.StreamID()), 1, 0, 0, 0}); err != nil { // 16 MiB
		t.Fatal(err)
	}
}

// fill writes to a stream until it fails, and tells how much was taken when it has waited for
// a while.
func fill(s *wire.Stream) (taken func() int, failed chan error) {
	n := make(chan int, 1000)
	failed = make(chan error, 1)
	go func() {
		for {
			took, err := s.Write(make([]byte, 10_000))
			n <- took
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	return func() (total int) {
		for {
			select {
			case took := <-n:
				total += took
			case <-time.After(200 * time.Millisecond):
				return total
			}
		}
	}, failed
}

// TestStuckTransportBoundsWriters defends: a transport that takes nothing makes a writer
// wait, with little in memory, and its deadline, Interrupt, Close and the end of the
// connection end that.
func TestStuckTransportBoundsWriters(t *testing.T) {
	for name, end := range map[string]func(*wire.Mux, *wire.Stream){
		"deadline":       func(_ *wire.Mux, s *wire.Stream) { _ = s.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) },
		"both deadlines": func(_ *wire.Mux, s *wire.Stream) { _ = s.SetDeadline(time.Now().Add(-time.Second)) },
		"interrupt":      func(_ *wire.Mux, s *wire.Stream) { s.Interrupt() },
		"close":          func(_ *wire.Mux, s *wire.Stream) { s.Close() },
		"end":            func(_ *wire.Mux, s *wire.Stream) { s.End() },
		"connection":     func(m *wire.Mux, _ *wire.Stream) { m.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, guest := stuckPair(t, wire.Profile{WindowBytes: 16 << 20})
			s, err := m.Open(&wire.Request{Op: wire.OpPing})
			if err != nil {
				t.Fatal(err)
			}
			widen(t, guest, s)
			taken, failed := fill(s)
			if n := taken(); n < 250_000 || n > 600_000 {
				t.Errorf("%d bytes were taken", n)
			}
			select {
			case err := <-failed:
				t.Fatalf("it does not wait: %v", err)
			default:
			}
			began := time.Now()
			end(m, s)
			select {
			case err := <-failed:
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%v after %v", err, took)
				}
			case <-time.After(20 * time.Second):
				t.Error("the writer waits on")
			}
		})
	}
}

// TestStuckTransportHoldsNobodyElse defends: while the transport takes nothing, a stream is
// opened, what has come is read, a whole window of it and more than the guest was told to
// send, and a read deadline is heeded.
func TestStuckTransportHoldsNobodyElse(t *testing.T) {
	const window = 256 << 10
	m, guest := stuckPair(t, wire.Profile{WindowBytes: window})
	head := make([]byte, 12+12) // the first stream's window update, and the header of its request
	open := make(chan *wire.Stream, 2)
	go func() {
		for range 2 {
			s, err := m.Open(&wire.Request{Op: wire.OpPing})
			if err != nil {
				t.Error(err)
			}
			open <- s
		}
	}()
	first, second := <-open, <-open
	if _, err := io.ReadFull(guest, head); err != nil {
		t.Fatal(err)
	}
	widen(t, guest, second)
	taken, _ := fill(second)
	if n := taken(); n < 250_000 || n > 600_000 {
		t.Errorf("%d bytes were taken", n)
	}
	go func() { // data frames for the first stream, by hand
		for range 3 * window / (32 << 10) {
			frame := make([]byte, 12+32<<10)
			copy(frame, []byte{0, 0, 0, 0, 0, 0, 0, byte(first.StreamID()), 0, 0, 32 << 10 >> 8, 0})
			if _, err := guest.Write(frame); err != nil {
				return
			}
		}
	}()
	_ = first.SetReadDeadline(time.Now().Add(2 * time.Second))
	var err error
	total, began := 0, time.Now()
	for buf := make([]byte, 64<<10); err == nil; {
		var n int
		n, err = first.Read(buf)
		total += n
	}
	if total < window {
		t.Errorf("%d bytes were read: %v", total, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the deadline came after %v", took)
	}
}

// TestWriteTimeoutGivesUp defends: a transport that takes nothing for as long as the profile
// says is given up, though nobody probes, and one that goes on slowly is not.
func TestWriteTimeoutGivesUp(t *testing.T) {
	m, guest := stuckPair(t, wire.Profile{WindowBytes: 16 << 20, WriteTimeoutMS: 400})
	s, err := m.Open(&wire.Request{Op: wire.OpPing})
	if err != nil {
		t.Fatal(err)
	}
	widen(t, guest, s)
	_, failed := fill(s)
	buf := make([]byte, 32<<10)
	for began := time.Now(); time.Since(began) < 1200*time.Millisecond; time.Sleep(20 * time.Millisecond) {
		if _, err := guest.Read(buf); err != nil {
			t.Fatalf("a slow transport is given up after %v: %v", time.Since(began), err)
		}
	}
	select {
	case <-m.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("a transport that takes nothing is never given up")
	}
	if err := <-failed; err == nil {
		t.Error("the writer is not told")
	}
}

// TestInterruptIsFinal defends: a deadline that is set after Interrupt, or beside it, does not
// undo it.
func TestInterruptIsFinal(t *testing.T) {
	m, guest := stuckPair(t, wire.Local())
	go func() { _, _ = io.Copy(io.Discard, guest) }()
	for range 200 {
		s, err := m.Open(&wire.Request{Op: wire.OpPing})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 1))
			failed <- err
		}()
		go s.Interrupt()
		_ = s.SetReadDeadline(time.Now().Add(time.Hour))
		select {
		case err := <-failed:
			if err == nil || errors.Is(err, io.EOF) {
				t.Fatalf("got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a reader waits on after Interrupt")
		}
		_ = s.SetDeadline(time.Time{})
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Fatal("it is read again")
		}
	}
}
