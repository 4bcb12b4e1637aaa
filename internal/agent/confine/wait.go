//go:build linux

package confine

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiting are the callers that a connection keeps waiting. It bounds their number and
// hears for all of them, in one thread, when their sockets say something.
type waiting struct {
	most int32
	now  atomic.Int32

	mu    sync.Mutex
	epoll int // 0: not made yet
	heard map[int]chan struct{}
}

const (
	maxWaiting = 1024
	// maxRetries bounds the threads in which tries of those that wait may have to be
	// interrupted.
	maxRetries = 4
	// checkEvery is how often it is looked whether a caller still waits.
	checkEvery = 200 * time.Millisecond
	// A listener whose queue is full says nothing when it has room again: it is tried
	// after these times, doubled.
	retryFirst = time.Millisecond
	retryLast  = 32 * time.Millisecond
)

func (w *waiting) enter() bool {
	if w.now.Add(1) <= w.most {
		return true
	}
	w.now.Add(-1)
	return false
}

func (w *waiting) leave() { w.now.Add(-1) }

// wait goes on with a connection until it is settled, its time is over or nobody waits
// for it any more.
func (g *gate) wait(t *task) {
	deadline := sendDeadline(t.sock)
	pause := retryFirst
	for {
		next := checkEvery
		var ready <-chan struct{}
		if t.domain == unix.AF_UNIX {
			next, pause = pause, min(2*pause, retryLast)
		} else if ch, err := g.waiting.watch(t.sock); err == nil {
			ready = ch
		}
		if !deadline.IsZero() {
			next = min(next, max(time.Until(deadline), 0))
		}
		timer := time.NewTimer(next)
		select {
		case <-ready:
		case <-timer.C:
		}
		timer.Stop()
		g.waiting.forget(t.sock)
		if !g.queue.waits(t.id) {
			t.close()
			return
		}
		g.retries <- struct{}{}
		errno, settled, over := t.attempt.again(func() (syscall.Errno, bool) { return g.tryAgain(t) })
		<-g.retries
		switch {
		case over:
			t.close()
			return
		case settled:
			g.finish(t, errno)
			return
		case !deadline.IsZero() && !time.Now().Before(deadline):
			if t.domain != unix.AF_UNIX {
				errno = unix.EINPROGRESS
			}
			g.finish(t, errno)
			return
		}
	}
}

// tryAgain is try where this process has begun the connection: one that is complete by now
// is its own.
func (g *gate) tryAgain(t *task) (syscall.Errno, bool) {
	errno, settled := g.try(t)
	if errno == unix.EISCONN && !t.had {
		errno = g.checked(t, 0)
	}
	return errno, settled
}

// sendDeadline is when a socket's own patience ends; zero: never.
func sendDeadline(sock int) time.Time {
	tv, err := unix.GetsockoptTimeval(sock, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil || tv.Nano() == 0 {
		return time.Time{}
	}
	return time.Now().Add(time.Duration(tv.Nano()))
}

// watch returns a channel that is closed once a socket is connected or has failed. forget
// ends it.
func (w *waiting) watch(sock int) (<-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoll == 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return nil, err
		}
		w.epoll, w.heard = fd, map[int]chan struct{}{}
		go w.hear(fd)
	}
	event := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(sock)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, sock, &event); err != nil {
		return nil, err
	}
	ch := make(chan struct{})
	w.heard[sock] = ch
	return ch, nil
}

func (w *waiting) forget(sock int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.heard[sock]; ok {
		delete(w.heard, sock)
		_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, sock, nil)
	}
}

// hear tells who waits. It ends with the process.
func (w *waiting) hear(epoll int) {
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		w.mu.Lock()
		for _, e := range events[:max(n, 0)] {
			if ch := w.heard[int(e.Fd)]; ch != nil {
				close(ch)
				w.heard[int(e.Fd)] = nil
			}
		}
		w.mu.Unlock()
	}
}
