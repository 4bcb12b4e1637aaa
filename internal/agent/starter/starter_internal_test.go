//go:build linux

package starter

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// start starts a shell by s in dir, with files as its first descriptors.
func (s *Starter) start(t testing.TB, dir int, script string, files ...*os.File) int {
	t.Helper()
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := s.ForkExec(&Program{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: dir, Attr: attr})
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// ended waits for the end of a child and returns its status.
func ended(t testing.TB, pid int) int {
	t.Helper()
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err == nil {
			return status.ExitStatus()
		} else if err != unix.EINTR {
			t.Fatal(err)
		}
	}
}

// newStarter returns a starter that has its thread, the null device and a directory.
func newStarter(t testing.TB) (s *Starter, null *os.File, dir int) {
	t.Helper()
	time.AfterFunc(time.Millisecond, func() {}) // the runtime polls from now on
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, dir = &Starter{}, openDir(t, t.TempDir())
	t.Cleanup(func() {
		null.Close()
		s.end()
	})
	if got := ended(t, s.start(t, dir, "exit 7", null, null, null)); got != 7 {
		t.Fatalf("the first start: status %d", got)
	}
	if !s.works {
		t.Skip("the kernel, or what filters its calls, gives no thread a table of its own")
	}
	return s, null, dir
}

// openDir opens a directory for as long as the test runs.
func openDir(t testing.TB, name string) int {
	t.Helper()
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// names lists a directory.
func names(t testing.TB, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// open lists the descriptors in a directory of /proc, with what they are.
func open(t testing.TB, table string) []string {
	t.Helper()
	var out []string
	for _, name := range names(t, table) {
		if link, err := os.Readlink(filepath.Join(table, name)); err == nil { // not that of the reading
			out = append(out, name+" "+link)
		}
	}
	slices.Sort(out)
	return out
}

// ownTables are the descriptor tables of those threads that do not use the process's.
func ownTables(t testing.TB) (own [][]string) {
	t.Helper()
	for _, task := range names(t, "/proc/self/task") {
		tid, _ := strconv.Atoi(task)
		const kcmpFiles = 2
		same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(tid), kcmpFiles, 0, 0, 0)
		if errno == 0 && same != 0 {
			own = append(own, open(t, "/proc/self/task/"+task+"/fd"))
		}
	}
	return own
}

// A program gets the descriptors that it is given, in their order and wherever they are
// in the guest's table, and nothing else; it starts in the directory that was opened,
// whatever has become of its name.
func TestStarterGivesWhatIsGiven(t *testing.T) {
	s, null, _ := newStarter(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := openDir(t, filepath.Join(root, "old"))
	if err := os.Rename(filepath.Join(root, "old"), filepath.Join(root, "new")); err != nil {
		t.Fatal(err)
	}
	leak, err := unix.Open("/dev/zero", unix.O_RDONLY, 0) // not even close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, files := range [][]*os.File{
		{null, w, w},
		{null, w, null},
		{null, w, null, w, null},
	} {
		pid := s.start(t, dir, "pwd -P; exec sleep 100", files...)
		name := make([]byte, 4096)
		n, err := r.Read(name)
		if got := strings.TrimSpace(string(name[:n])); err != nil || got != filepath.Join(root, "new") {
			t.Errorf("it starts in %q, %v", got, err)
		}
		table := fmt.Sprintf("/proc/%d/fd", pid)
		var want []string
		for i, f := range files {
			link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprint(i, " ", link))
		}
		got := open(t, table)
		for end := time.Now().Add(10 * time.Second); !slices.Equal(got, want) && time.Now().Before(end); { // the loader has files of its own open
			got = open(t, table)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("its descriptors: -want +got:\n%s", diff)
		}
		_ = unix.Kill(pid, unix.SIGKILL)
		ended(t, pid)
	}
	w.Close()
}

// Thousands of starts, and those that fail, leave both tables as they were.
func TestStarterLeavesNothing(t *testing.T) {
	s, null, dir := newStarter(t)
	n := 2000
	if testing.Short() {
		n = 200
	}
	tables := func() [][]string { return append(ownTables(t), open(t, "/proc/self/fd")) }
	before := tables()
	if len(before) != 2 {
		t.Fatalf("%d tables", len(before))
	}
	attr := &syscall.ProcAttr{Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{}}
	for i := range n {
		path, want := "/bin/true", error(nil)
		if i%10 == 0 {
			path, want = "/nonexistent/program", unix.ENOENT
		}
		pid, err := s.ForkExec(&Program{Path: path, Args: []string{"x"}, Dir: dir, Attr: attr})
		if err != want { //nolint:errorlint // a bare errno
			t.Fatalf("start %d: %v", i, err)
		}
		if err == nil {
			ended(t, pid)
		}
	}
	if diff := cmp.Diff(before, tables()); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

// A start that hangs holds up no other.
func TestStarterHeldUp(t *testing.T) {
	s, null, dir := newStarter(t)
	s.mu.Lock() // as for a start
	defer s.mu.Unlock()
	if got := ended(t, s.start(t, dir, "exit 3", null, null, null)); got != 3 {
		t.Errorf("status %d", got)
	}
}

// A thread to which descriptors cannot be sent any more is given up, and starts go on.
func TestStarterGivesUp(t *testing.T) {
	s, null, dir := newStarter(t)
	far, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(far[1])
	sent := s.near
	s.near = far[0] // what is sent now does not come to the thread
	if err := unix.Shutdown(sent, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := ended(t, s.start(t, dir, "exit 5", null, null, null)); got != 5 {
			t.Errorf("status %d", got)
		}
	}
	unix.Close(sent)
	if s.works {
		t.Error("it is used further")
	}
}

// The runtime, which waits for files and timers and wakes who waits on any thread, does so
// on this one too: it would end the program otherwise.
func TestStarterBesideTheRuntime(t *testing.T) {
	s, null, dir := newStarter(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	defer debug.SetGCPercent(debug.SetGCPercent(1)) // whoever begins a collection polls after it
	attr := &syscall.ProcAttr{Files: []uintptr{null.Fd()}, Sys: &syscall.SysProcAttr{}}
	attr.Env = slices.Repeat([]string{"NAME=value"}, 2000) // it is the thread that makes garbage
	p := &Program{Path: "/nonexistent/program", Args: []string{"x"}, Dir: dir, Attr: attr}
	for i := range 1000 {
		// One that is due sooner than whoever polls would look: on the processor that
		// the thread gets from here and gives away again.
		time.AfterFunc(time.Duration(i%7)*time.Millisecond, func() {})
		if _, err := s.ForkExec(p); err != unix.ENOENT { //nolint:errorlint // a bare errno
			t.Fatal(err)
		}
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// BenchmarkStart starts a program and waits for its end beside descriptors that the guest
// holds, from where the caller is and by the starter, in turns.
func BenchmarkStart(b *testing.B) {
	s, null, dir := newStarter(b)
	var held [2000]int
	for _, count := range []int{0, 1000, len(held)} {
		b.Run(fmt.Sprintf("descriptors=%d", count), func(b *testing.B) {
			for i := range count {
				fd, err := unix.MemfdCreate("held", unix.MFD_CLOEXEC)
				if err != nil {
					b.Fatal(err)
				}
				held[i] = fd
			}
			attr := &syscall.ProcAttr{Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}}
			p := &Program{Path: "/bin/true", Args: []string{"true"}, Dir: dir, Attr: attr}
			var took [2][]time.Duration
			for b.Loop() {
				for i, fork := range []func() (int, error){p.ForkExec, func() (int, error) { return s.ForkExec(p) }} {
					begun := time.Now()
					pid, err := fork()
					if err != nil {
						b.Fatal(err)
					}
					ended(b, pid)
					took[i] = append(took[i], time.Since(begun))
				}
			}
			for i, name := range []string{"direct-us", "starter-us"} {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/4].Microseconds()), name)
			}
			for i := range count {
				unix.Close(held[i])
			}
		})
	}
}
