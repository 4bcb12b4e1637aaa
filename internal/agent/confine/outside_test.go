//go:build linux

package confine_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// outside is a listener of this process, which lives outside of any place.
type outside struct {
	addr     string
	accepted atomic.Int64
}

// listenOutside listens on a name until the test ends.
func listenOutside(t testing.TB, addr string) *outside {
	t.Helper()
	fd, err := listen(unix.SOCK_STREAM, addr, 16)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), addr)
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(addr, "@") {
		t.Cleanup(func() { os.Remove(addr) })
		if err := os.Chmod(addr, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	o := &outside{addr: addr}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.accepted.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return o
}

// reached says whether anybody has connected. The listener itself must work.
func (o *outside) reached(t testing.TB) {
	t.Helper()
	if n := o.accepted.Load(); n != 0 {
		t.Errorf("%s: %d connections came out", o.addr, n)
	}
	if err := dial(unix.SOCK_STREAM, o.addr); err != nil {
		t.Errorf("%s: from outside: %v", o.addr, err)
	}
	for end := time.Now().Add(10 * time.Second); o.accepted.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: does not accept", o.addr)
		}
	}
}

// TestOutside defends: no command connects to a unix socket on which somebody outside
// listens, wherever its name is and whenever it was made, and not one connection reaches it.
func TestOutside(t *testing.T) {
	for what, p := range places(t) {
		t.Run(what, func(t *testing.T) {
			dir, other := openDir(t), openDir(t)
			if err := os.Symlink(filepath.Join(other, "docker.sock"), filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			names := []string{
				filepath.Join(dir, "before"), filepath.Join(other, "docker.sock"), long(other), "/run/bc-" + filepath.Base(dir), "@bc-" + filepath.Base(dir),
			}
			var all []*outside
			for _, n := range names {
				all = append(all, listenOutside(t, n))
			}
			names = append(names, filepath.Join(dir, "link"), "before", "../"+filepath.Base(other)+"/docker.sock", "/proc/self/cwd/before")
			out := p.run(t, dir, "connect", names...)
			for _, n := range names {
				want := n + " EACCES EACCES\n"
				if !strings.Contains(out, want) {
					t.Errorf("want %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
			for _, o := range all {
				o.reached(t)
			}
		})
	}
}

// TestOutsideLater defends: what begins to listen when the place runs is out of reach too,
// in the place of a listener of a command as well.
func TestOutsideLater(t *testing.T) {
	p := place{openNetwork: true}
	dir := openDir(t)
	taken, path := "@bc-later-"+filepath.Base(dir), filepath.Join(dir, "s")
	cmd := p.command(t, dir, "later", taken, path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	var line string
	if _, err := fmt.Fscanln(stdout, &line); err != nil || line != "left" {
		t.Fatalf("%q, %v", line, err)
	}
	abstract, named := listenOutside(t, taken), listenOutside(t, path)
	fmt.Fprintln(stdin, "go")
	var first, second string
	if _, err := fmt.Fscanln(stdout, &first, &second); err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{first, second} {
		if got != "EACCES" && got != "ECONNREFUSED" {
			t.Errorf("got %s", got)
		}
	}
	abstract.reached(t)
	named.reached(t)
}

// later listens on the names, leaves them, and connects to them when it is told to.
func later(names []string) error {
	for _, n := range names {
		l, err := listen(unix.SOCK_STREAM, n, 5)
		if err != nil {
			return err
		}
		if err := converse(l, unix.SOCK_STREAM, n); err != nil {
			return err
		}
		unix.Close(l)
		if !strings.HasPrefix(n, "@") {
			if err := os.Remove(n); err != nil {
				return err
			}
		}
	}
	fmt.Println("left")
	var line string
	if _, err := fmt.Scanln(&line); err != nil {
		return err
	}
	fmt.Println(name(dial(unix.SOCK_STREAM, names[0])), name(dial(unix.SOCK_STREAM, names[1])))
	return nil
}
