//go:build linux

package direct

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"golang.org/x/sys/unix"
)

// The parts that this program plays as another process.
const (
	guestPart = "berth-direct-test-guest" // the first process of a container, alone
	housePart = "berth-direct-test-house" // the same among processes that crowd
	deafPart  = "berth-direct-test-deaf"  // the same, but it never connects
	crowdPart = "berth-direct-test-crowd" // connects to every socket, again and again
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		dir := os.Args[2]
		switch os.Args[1] {
		case guestPart:
			beGuest(dir, true)
		case housePart:
			crowd(dir, 0)
			crowd(dir, 0)
			crowd(dir, syscall.CLONE_NEWPID) // first too, but a namespace deeper
			beGuest(dir, true)
		case deafPart:
			crowd(dir, syscall.CLONE_NEWPID)
			beGuest(dir, false)
		case crowdPart:
			fmt.Println("ready")
			for {
				connectAll(dir, nil)
			}
		}
	}
	os.Exit(m.Run())
}

// crowd starts a process that connects without end, which ends with this one.
func crowd(dir string, flags uintptr) {
	cmd := exec.Command("/proc/self/exe", crowdPart, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// beGuest hears the bell and, if it is to, connects to every socket once.
func beGuest(dir string, connect bool) {
	fd, err := unix.Open(filepath.Join(dir, bell), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	met := map[string]bool{}
	for {
		var buf [1]byte
		_, _ = unix.Read(fd, buf[:])
		if connect {
			connectAll(dir, met)
		}
		time.Sleep(time.Millisecond)
	}
}

// connectAll connects to the sockets of dir that were not met before.
func connectAll(dir string, met map[string]bool) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
	for _, name := range names {
		if met[name] {
			continue
		}
		conn, err := net.Dial("unix", name)
		if err != nil {
			continue
		}
		_, _ = io.WriteString(conn, "hello")
		if met != nil {
			met[name] = true // it stays
		}
	}
}

// newDirs returns the directories of an engine whose socket this process listens at.
func newDirs(t *testing.T) *Dirs {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "e")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e, err := engine.New(engine.Docker(), address.Options{Host: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	return &Dirs{Engine: e, State: t.TempDir(), Target: "/d"}
}

// play starts this program in a part, as the first process of a pid namespace, and returns
// its pid out here.
func play(t *testing.T, part, dir string) int {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", part, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no pid namespace: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and with it all of its namespace
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s says %q, %v", part, line, err)
	}
	return cmd.Process.Pid
}

// The first process of a container is let in, however many others come before it, and nobody
// else: no other process of it, no first one of a namespace inside, none of another container.
// No socket stays.
func TestDial(t *testing.T) {
	usual := limit
	t.Cleanup(func() { limit = usual })
	for _, tt := range []struct {
		name, part string
		pid        func(real int) int
		want       bool
	}{
		{"guest", guestPart, nil, true},
		{"guest in a crowd", housePart, nil, true},
		{"crowd without guest", deafPart, nil, false},
		{"not the engine's pid", guestPart, func(pid int) int { return pid + 1 }, false},
		{"no pid", guestPart, func(int) int { return 0 }, false},
		{"this process", guestPart, func(int) int { return os.Getpid() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if limit = usual; tt.want {
				limit = 20 * time.Second // the crowd wants the machine too
			}
			d, ctx := newDirs(t), context.Background()
			name := d.Make(ctx)
			if name == "" {
				t.Fatal("no directory")
			}
			pid := play(t, tt.part, d.Path(name))
			if tt.pid != nil {
				pid = tt.pid(pid)
			}
			conn, err := d.Dial(ctx, name, pid, true)
			if (err == nil) != tt.want {
				t.Fatalf("error %v; want one: %v", err, !tt.want)
			}
			if conn != nil {
				buf := make([]byte, len("hello"))
				if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
					t.Errorf("read %q, %v", buf, err)
				}
				conn.Close()
			}
			if left, _ := filepath.Glob(filepath.Join(d.Path(name), "*"+suffix)); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A guest that does not hear costs no wait, and a caller who has gone none either.
func TestDialNobody(t *testing.T) {
	d, ctx := newDirs(t), context.Background()
	name := d.Make(ctx)
	began := time.Now()
	if conn, err := d.Dial(ctx, name, os.Getpid(), false); err == nil {
		conn.Close()
		t.Error("connected to nobody")
	}
	if took := time.Since(began); took >= limit {
		t.Errorf("it took %v", took)
	}
	play(t, deafPart, d.Path(name))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.Dial(gone, name, os.Getpid(), false); err == nil {
		t.Error("connected for a caller who has gone")
	}
}

// What a killed client left is swept, and what may be in use is not.
func TestSweep(t *testing.T) {
	d, ctx := newDirs(t), context.Background()
	name := d.Make(ctx)
	for file, age := range map[string]time.Duration{"old" + suffix: time.Hour, ".old" + suffix: time.Hour, "new" + suffix: 0} {
		path := filepath.Join(d.Path(name), file)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		made := time.Now().Add(-age)
		if err := os.Chtimes(path, made, made); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = d.Dial(ctx, name, os.Getpid(), false)
	left, err := filepath.Glob(filepath.Join(d.Path(name), "*"+suffix))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "new"+suffix {
		t.Errorf("left %q, %v; want the new one", left, err)
	}
	d.Remove(name)
	if _, err := os.Lstat(d.Path(name)); !os.IsNotExist(err) {
		t.Errorf("removed: %v", err)
	}
}

// A directory that others may write to, or that is none, is not used.
func TestUnsafeDirectory(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"open":       func(dir string) error { return os.Chmod(dir, 0o777) },
		"somebody's": func(dir string) error { return os.Chown(dir, 1001, -1) },
		"link": func(dir string) error {
			return os.Rename(dir, dir+"2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, level := range []int{1, 2} { // the engine's directory, and that of all
				d, ctx := newDirs(t), context.Background()
				dir := d.Path(d.Make(ctx))
				for range level {
					dir = filepath.Dir(dir)
				}
				if err := spoil(dir); err != nil {
					t.Skip(err) // not root
				}
				if _, err := os.Lstat(dir); os.IsNotExist(err) {
					if err := os.Symlink(dir+"2", dir); err != nil {
						t.Fatal(err)
					}
				}
				if got := d.Make(ctx); got != "" {
					t.Errorf("level %s: made %s", strconv.Itoa(level), got)
				}
			}
		})
	}
}

// Whatever the umask is, any user of a container sees the bell, and others of the machine see
// nothing.
func TestModes(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	d := newDirs(t)
	dir := d.Path(d.Make(context.Background()))
	for path, want := range map[string]os.FileMode{
		dir: os.ModeDir | 0o755, filepath.Join(dir, bell): os.ModeNamedPipe | 0o644, filepath.Dir(dir): os.ModeDir | 0o700,
	} {
		if st, err := os.Lstat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, st, err, want)
		}
	}
}
