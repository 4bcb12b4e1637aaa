//go:build linux

package starter

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Starter starts programs. The zero value is ready: the first start begins the thread,
// which stays for the life of the process. Where the kernel (before 5.9) or what filters its calls refuses
// the table, and while the thread is held up by a start that hangs, programs are started
// on the thread of the caller, as if there were none.
type Starter struct {
	mu    sync.Mutex // held for one start
	tried bool
	works bool
	near  int // the end of the socket that descriptors are sent to the thread by
	tasks chan *task
	done  chan struct{} // receives for each task
}

// task is one start. The thread sets what follows program.
type task struct {
	program *Program
	arrived bool // the descriptors have
	pid     int
	err     error
}

// ForkExec starts p, as Program.ForkExec does, on the thread if it can. It may be called
// from several goroutines at once.
func (s *Starter) ForkExec(p *Program) (pid int, err error) {
	if !s.mu.TryLock() {
		return p.ForkExec()
	}
	defer s.mu.Unlock()
	if !s.tried {
		s.tried, s.works = true, s.begin()
	}
	if s.works && unix.Sendmsg(s.near, []byte{0}, unix.UnixRights(p.descriptors()...), nil, 0) == nil {
		t := &task{program: p}
		s.tasks <- t
		<-s.done
		if t.arrived {
			return t.pid, t.err
		}
		s.end() // what has not been received may yet be, in place of what comes next
	}
	return p.ForkExec()
}

// end ends the thread for good. The caller holds the lock.
func (s *Starter) end() {
	if s.works {
		close(s.tasks)
		unix.Close(s.near)
	}
	s.tried, s.works = true, false
}

// begin makes the thread, and reports whether it has its table.
func (s *Starter) begin() bool {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	s.near, s.tasks, s.done = ends[0], make(chan *task), make(chan struct{})
	begun := make(chan bool)
	go s.serve(ends[1], begun)
	works := <-begun
	unix.Close(ends[1])
	if !works {
		unix.Close(ends[0])
	}
	return works
}

// serve is the thread. far is its end of the socket. No file that the runtime polls is
// used on it: a number there means something else than it does everywhere else.
func (s *Starter) serve(far int, begun chan<- bool) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine, the table with it
	if unix.Gettid() == unix.Getpid() {
		// The table of this thread is what /proc shows as that of the process. While
		// this goroutine holds it, another gets another.
		other := make(chan bool)
		go s.serve(far, other)
		works := <-other
		runtime.UnlockOSThread()
		begun <- works
		return
	}
	err := ownTable(far)
	begun <- err == nil
	if err != nil {
		return
	}
	for t := range s.tasks {
		t.run(far)
		s.done <- struct{}{}
	}
}

// run does a task whose descriptors have been sent to sock.
func (t *task) run(sock int) {
	fds, err := receive(sock, len(t.program.descriptors()))
	if err == nil {
		t.arrived = true
		t.pid, t.err = t.program.with(fds).ForkExec()
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// receive takes count descriptors from a socket. Those that have come are returned with
// an error too.
func receive(sock, count int) ([]int, error) {
	const fdBytes = 4
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(count*fdBytes))
	n := 0
	err := error(unix.EINTR)
	for err == unix.EINTR {
		_, n, _, _, err = unix.Recvmsg(sock, data[:], oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errNotArrived
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err == nil && len(fds) != count { // the table is full
		err = errNotArrived
	}
	return fds, err
}

var errNotArrived = errors.New("the descriptors have not arrived")

// ownTable gives this thread a descriptor table of its own with the standard error, keep,
// and what the runtime uses on whatever thread it happens to be: the epoll set that it
// waits with and the eventfd that it wakes a waiting thread with. All of these kinds stay,
// for nothing tells whose they are, and without any there is no such table. After an error
// the thread is not to be used further.
func ownTable(keep int) error {
	// The call closes nothing: there is no such number.
	if err := unix.CloseRange(math.MaxUint32, math.MaxUint32, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return err
	}
	const table = "/proc/thread-self/fd"
	entries, err := os.ReadDir(table)
	if err != nil {
		return err
	}
	var polls, events int
	var others []int
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return err
		}
		switch link, _ := os.Readlink(table + "/" + e.Name()); {
		case link == "anon_inode:[eventpoll]":
			polls++
		case link == "anon_inode:[eventfd]":
			events++
		case fd > 2 && fd != keep:
			others = append(others, fd)
		}
	}
	if polls == 0 || events == 0 {
		return errors.New("the runtime's own descriptors are not to be told")
	}
	for _, fd := range others {
		unix.Close(fd)
	}
	// A host may be at the standard streams: it is to hear when they are closed.
	return errors.Join(unix.Dup3(2, 0, 0), unix.Dup3(2, 1, 0))
}
