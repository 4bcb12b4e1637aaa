//go:build linux

package confine

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Whether a connection waits is a flag of the open socket, and that is shared with the
// caller: its other threads can take the flag back at any moment, so that no connect(2)
// of the guest is sure to return. What takes longer than patience is interrupted.
const (
	patience    = 2 * time.Millisecond
	strikeEvery = time.Millisecond
)

// pages hold the addresses of connections under way, each its own.
type pages struct {
	mu   sync.Mutex
	free [][]byte
}

func (p *pages) take() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		page := p.free[n-1]
		p.free = p.free[:n-1]
		return page, nil
	}
	return unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func (p *pages) give(page []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, page)
}

// strike ends a connect(2) that sleeps. A signal takes it out of its sleep, and back in,
// because the runtime has all its handlers installed so; but the kernel reads the address
// again then, and there is none any more.
type strike struct {
	page []byte
	tid  int

	mu     sync.Mutex
	over   bool
	struck bool
}

// run goes on until the call is over.
func (s *strike) run() {
	for s.once() {
		time.Sleep(strikeEvery)
	}
}

func (s *strike) once() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	if !s.struck {
		s.struck = unix.Mprotect(s.page, unix.PROT_NONE) == nil
	}
	_ = unix.Tgkill(os.Getpid(), s.tid, unix.SIGURG) // it has a handler in every Go program
	return true
}

// end is called when the call has returned.
func (s *strike) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.struck {
		_ = unix.Mprotect(s.page, unix.PROT_READ|unix.PROT_WRITE) // nothing that can fail: it was so before
	}
}

// connectSoon is connect(2) of the guest itself, which takes no longer than about patience;
// interrupted says that it would have.
func (g *gate) connectSoon(sock int, address []byte) (errno syscall.Errno, interrupted bool) {
	page, err := g.pages.take()
	if err != nil {
		return unix.EAGAIN, false
	}
	defer g.pages.give(page)
	runtime.LockOSThread() // the one that is interrupted
	defer runtime.UnlockOSThread()
	address = page[:copy(page, address)] // before it can be taken away
	s := &strike{page: page, tid: unix.Gettid()}
	timer := time.AfterFunc(patience, func() {
		g.watch.slow(g.work)
		s.run()
	})
	errno = connect(sock, address, g.pass)
	timer.Stop()
	s.end()
	return errno, errno == unix.EINTR || errno == unix.EFAULT
}

// blocking are the sockets of callers that would wait, and that are non-blocking at the
// moment for the guest's sake: by their cookies, how many connections go on with each.
type blocking struct {
	mu  sync.Mutex
	now map[uint64]int
}

// wants reports whether the caller has the socket in a state in which it would wait.
func (b *blocking) wants(sock int, cookie uint64) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	return flags&unix.O_NONBLOCK == 0 || b.now[cookie] > 0, err
}

// enter makes a socket non-blocking.
func (b *blocking) enter(sock int, cookie uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags|unix.O_NONBLOCK)
	}
	if err != nil {
		return err
	}
	if b.now == nil {
		b.now = map[uint64]int{}
	}
	b.now[cookie]++
	return nil
}

// leave makes it blocking again, if no other connection goes on with it. It reports whether
// the caller has done that before.
func (b *blocking) leave(sock int, cookie uint64) (before bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	if b.now[cookie]--; b.now[cookie] <= 0 {
		delete(b.now, cookie)
		if err == nil {
			_, _ = unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags&^unix.O_NONBLOCK)
		}
	}
	return err == nil && flags&unix.O_NONBLOCK == 0
}
