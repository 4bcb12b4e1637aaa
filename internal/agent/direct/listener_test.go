//go:build linux

package direct

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// host makes sockets in a directory as a host does.
type host struct {
	t   *testing.T
	dir string
}

func (h host) listen(name string) *net.UnixListener {
	h.t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(h.dir, name), Net: "unix"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	return l
}

func (h host) ring() {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(h.dir, bell), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\n"); err != nil {
		h.t.Fatal(err)
	}
}

// met reports whether somebody connects within a time.
func met(t *testing.T, l *net.UnixListener, within time.Duration) bool {
	t.Helper()
	_ = l.SetDeadline(time.Now().Add(within))
	conn, err := l.Accept()
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return err == nil
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{t, t.TempDir()}
	if err := unix.Mkfifo(filepath.Join(h.dir, bell), 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

// Every socket is connected to once, whether it was there first or the bell has rung for it;
// what is no socket of a host's is left alone.
func TestListener(t *testing.T) {
	h := newHost(t)
	first := h.listen("first" + suffix)
	hidden := h.listen(".half" + suffix)
	l, err := Listen(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 16)
	go func() {
		for {
			_, err := l.Accept()
			accepted <- err
			if err != nil {
				return
			}
		}
	}()
	if !met(t, first, 10*time.Second) {
		t.Error("nobody comes to the socket that was there")
	}
	for _, name := range []string{"a", "b"} {
		next := h.listen(name + suffix)
		h.ring()
		if !met(t, next, 10*time.Second) {
			t.Errorf("nobody comes to %s", name)
		}
	}
	for range 3 {
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
	}
	h.ring()
	if met(t, first, 50*time.Millisecond) || met(t, hidden, time.Millisecond) {
		t.Error("it came again, or to a socket that was not ready")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := os.OpenFile(filepath.Join(h.dir, bell), os.O_WRONLY|unix.O_NONBLOCK, 0); !errors.Is(err, unix.ENXIO) {
		t.Errorf("ring after close: %v; want that nobody hears", err)
	}
}

// Where there is no bell nobody listens, and no path is looked at that is not absolute.
func TestNoBell(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "", "."} {
		if l, err := Listen(dir); err == nil {
			l.Close()
			t.Errorf("Listen(%q) works", dir)
		}
	}
}
