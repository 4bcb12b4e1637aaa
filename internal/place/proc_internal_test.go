//go:build linux

package place

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/procstat"
)

// leaderless makes this program one whose first thread has ended, and that runs on.
const leaderless = "berth-place-test-leaderless"

func init() {
	if len(os.Args) < 2 || os.Args[1] != leaderless {
		return
	}
	runtime.LockOSThread() // inits run on the first thread
	go func() {
		for !firstThreadHasEnded() {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func firstThreadHasEnded() bool {
	st, err := procstat.Read(os.Getpid())
	return err == nil && st.State == 'Z'
}

// A process whose first thread has ended runs as long as another does: a guest that was taken
// for dead while it executed itself was ended by whoever came next.
func TestProcessRunsWithoutItsFirstThread(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", leaderless)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it says %q: %v", line, err)
	}
	p, idErr := identify(cmd.Process.Pid)
	if st, err := procstat.Read(p.pid); idErr != nil || err != nil || st.State != 'Z' {
		t.Fatalf("%+v, %v: this test shows nothing", st, err)
	}
	if runs, err := p.runs(); !runs || err != nil {
		t.Errorf("it runs: %v, %v; want that it does", runs, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Second); p.alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it runs after it was killed")
		}
	}
	if st, err := procstat.Read(p.pid); err != nil || st.State != 'Z' {
		t.Errorf("it was reaped: %+v, %v; want a zombie that is known to be dead", st, err)
	}
}

// A pid that is not that of a process, as while one is being reaped, is that of one that is
// gone: nothing fails for it.
func TestOpenReaped(t *testing.T) {
	tid := make(chan int)
	done := make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		tid <- syscall.Gettid()
		<-done
	}()
	thread := proc{<-tid, 1}
	if h, err := thread.open(); h != nil || err != nil {
		t.Errorf("a thread for a process: %v, %v", h, err)
	}
}
