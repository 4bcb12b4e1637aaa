package sshtest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy relays TCP connections to one address. It can hold every byte back for a
// time, as a long line does, and cut what is connected.
type Proxy struct {
	// Addr is where the proxy listens.
	Addr string

	target string
	delay  time.Duration
	l      net.Listener

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool

	accepted atomic.Int64
	refuse   atomic.Int64
	frozen   atomic.Bool
	wg       sync.WaitGroup
}

// StartProxy starts a proxy to target that delays each direction by delay. It
// ends with the test.
func StartProxy(tb testing.TB, target string, delay time.Duration) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, delay: delay, l: l, conns: map[net.Conn]struct{}{}}
	p.wg.Add(1)
	go p.accept()
	tb.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Freeze(false)
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Cut resets every connection, as a lost route or a killed relay does. New ones
// are taken as before.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}

// Refuse makes the proxy close the next n connections at once.
func (p *Proxy) Refuse(n int) { p.refuse.Store(int64(n)) }

// Freeze makes the proxy deliver nothing and say nothing, as a lost route does, or
// go on. What comes meanwhile is kept.
func (p *Proxy) Freeze(freeze bool) { p.frozen.Store(freeze) }

// Accepted counts the connections that were taken since the start.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Open counts the connections that are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		near, err := p.l.Accept()
		if err != nil {
			return
		}
		if p.refuse.Add(-1) >= 0 {
			near.Close()
			continue
		}
		far, err := net.Dial("tcp", p.target)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			near.Close()
			far.Close()
			return
		}
		p.conns[near], p.conns[far] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.accepted.Add(1)
		p.wg.Add(1)
		go p.relay(near, far)
	}
}

func (p *Proxy) relay(near, far net.Conn) {
	defer p.wg.Done()
	var both sync.WaitGroup
	both.Go(func() { p.copy(far, near) })
	both.Go(func() { p.copy(near, far) })
	both.Wait()
	near.Close()
	far.Close()
	p.mu.Lock()
	delete(p.conns, near)
	delete(p.conns, far)
	p.mu.Unlock()
}

// piece is what was read at one time, with the time at which it may go out.
type piece struct {
	data []byte
	due  time.Time
}

// copy relays one direction, each byte delay after it came; bandwidth is not
// limited. The end of the input is passed on.
func (p *Proxy) copy(to, from net.Conn) {
	const pieces = 1024 // of at most 32 KiB each: more than the windows above hold
	line := make(chan piece, pieces)
	var writer sync.WaitGroup
	writer.Go(func() {
		broken := false
		for pc := range line {
			if broken {
				continue
			}
			time.Sleep(time.Until(pc.due))
			for p.frozen.Load() {
				time.Sleep(time.Millisecond)
			}
			if _, err := to.Write(pc.data); err != nil {
				broken = true
				from.Close()
			}
		}
		if tcp, ok := to.(*net.TCPConn); ok && !broken {
			_ = tcp.CloseWrite()
		}
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			line <- piece{buf[:n], time.Now().Add(p.delay)}
		}
		if err != nil {
			break
		}
	}
	close(line)
	writer.Wait()
}
