//go:build linux

package guest_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/guest/selfexec"
)

func TestMain(m *testing.M) {
	selfexec.Main()
	os.Exit(m.Run())
}

// place is a real guest: this test program, executed again, on a unix socket.
type place struct {
	t       testing.TB
	workdir string
	socket  string
	cmd     *exec.Cmd
	serial  atomic.Int64
}

func newPlace(t testing.TB, args ...string) *place {
	t.Helper()
	bin, err := guest.Binary(context.Background(), "linux", runtimeArch, guest.BinaryOptions{AllowSelf: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, workdir: t.TempDir(), socket: filepath.Join(t.TempDir(), "s")}
	ln, err := net.Listen("unix", p.socket)
	if err != nil {
		t.Fatal(err)
	}
	file, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	all := append(append([]string{}, bin.Args...), "serve", "--id", "real", "--workdir", p.workdir, "--listen-fd", "3", "--peer", "user")
	p.cmd = exec.Command(bin.Path, append(all, args...)...)
	p.cmd.ExtraFiles = []*os.File{file}
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Cleanup(func() {
		ln.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// dial is a guest.Dialer.
func (p *place) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", p.socket)
}

// open opens a session that is closed with the test. It dials through wrap, if given.
func (p *place) open(wrap func(io.ReadWriteCloser) io.ReadWriteCloser) *guest.Session {
	p.t.Helper()
	dial := func(ctx context.Context) (io.ReadWriteCloser, error) {
		c, err := p.dial(ctx)
		if err == nil && wrap != nil {
			c = wrap(c)
		}
		return c, err
	}
	stream, err := dial(context.Background())
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := guest.Open(context.Background(), stream, guest.OpenOptions{Redial: dial})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// name returns a fresh file name in the workdir.
func (p *place) name() string {
	return filepath.Join(p.workdir, "f"+strconv.FormatInt(p.serial.Add(1), 10))
}

// cutter cuts its connection after a number of bytes in either direction.
type cutter struct {
	io.ReadWriteCloser
	mu   sync.Mutex
	left int64
}

func (c *cutter) spend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left -= int64(n); c.left < 0 {
		c.ReadWriteCloser.Close()
	}
}

func (c *cutter) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.spend(n)
	return n, err
}

func (c *cutter) Write(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Write(p)
	c.spend(n)
	return n, err
}

// fragmenter moves a few bytes at a time, and stalls now and then.
type fragmenter struct {
	io.ReadWriteCloser
	reads, writes atomic.Int64
}

func (f *fragmenter) step(count *atomic.Int64, p []byte) int {
	n := count.Add(1)
	if n%64 == 0 {
		time.Sleep(time.Millisecond)
	}
	return min(len(p), int(1+(n*7919)%4099))
}

func (f *fragmenter) Read(p []byte) (int, error) {
	return f.ReadWriteCloser.Read(p[:f.step(&f.reads, p)])
}

func (f *fragmenter) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := f.ReadWriteCloser.Write(p[done : done+f.step(&f.writes, p[done:])])
		if done += n; err != nil {
			return done, err
		}
	}
	return len(p), nil
}
