package ssh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/spec"
)

// timing is when connections are probed, given up and closed. Tests shorten it.
type timing struct {
	keepAlive time.Duration // between two probes
	misses    int           // so many unanswered intervals mean that it is dead
	open      time.Duration // a server that opens no channel for so long is dead
	idle      time.Duration // a connection without a channel is closed after it
}

func defaultTiming() timing {
	return timing{keepAlive: 15 * time.Second, misses: 3, open: 15 * time.Second, idle: 2 * time.Second}
}

// pool holds the connections to one host. There is one as a rule; sshd limits the
// channels on each (MaxSessions), and another is dialled when it refuses more.
// Connections are dialled when needed, replaced when dead, and closed a moment
// after their last channel. Nothing runs in an idle pool.
type pool struct {
	dial func(context.Context) (*ssh.Client, error)
	t    timing

	mu      sync.Mutex
	clients []*client
	flight  *flight // the dial under way, shared by all who wait; nil: none
}

// client is one connection. The pool's mutex guards its fields.
type client struct {
	ssh    *ssh.Client
	dead   chan struct{} // closed when the connection is gone
	open   int           // channels that are open or being opened
	limit  int           // most channels that the server allows; 0: not met yet
	served bool          // it has opened a channel
	timer  *time.Timer   // closes it when idle
}

// flight is one dial.
type flight struct {
	done    chan struct{}
	err     error // valid once done is closed
	waiters int
	cancel  context.CancelFunc
}

func newPool(dial func(context.Context) (*ssh.Client, error), t timing) *pool {
	return &pool{dial: dial, t: t}
}

// session opens a session channel. The caller calls release, once or more, when
// the channel is closed.
func (p *pool) session(ctx context.Context) (s *ssh.Session, release func(), err error) {
	// A connection may turn out dead when it is used: then another is dialled.
	const deaths = 3
	for died := 0; ; {
		c, err := p.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, err := p.open(ctx, c)
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			return s, sync.OnceFunc(func() { p.release(c) }), nil
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.As(err, &refused):
			if p.refused(c) {
				return nil, nil, &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("the host opens no session: %s: %s", refused.Reason, refused.Message), Hint: "see MaxSessions in the host's sshd_config and the restrictions of the key"}
			}
		default:
			p.discard(c)
			if died++; died == deaths {
				return nil, nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the connection to the host breaks: %w", err), Hint: "see the log of the host's sshd"}
			}
		}
	}
}

// acquire returns a connection with room for a channel, and counts the channel.
func (p *pool) acquire(ctx context.Context) (*client, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.mu.Lock()
		if c := p.roomy(); c != nil {
			c.open++
			c.timer.Stop()
			p.mu.Unlock()
			return c, nil
		}
		f := p.flight
		if f == nil {
			f = p.launch()
		}
		f.waiters++
		p.mu.Unlock()

		select {
		case <-f.done:
			if f.err != nil {
				return nil, f.err
			}
		case <-ctx.Done():
			p.mu.Lock()
			if f.waiters--; f.waiters == 0 {
				// Nobody wants it any more; a caller that comes now dials anew.
				f.cancel()
				if p.flight == f {
					p.flight = nil
				}
			}
			p.mu.Unlock()
			return nil, ctx.Err()
		}
	}
}

// roomy returns a connection that may have room, or nil.
func (p *pool) roomy() *client {
	for _, c := range p.clients {
		if c.limit == 0 || c.open < c.limit {
			return c
		}
	}
	return nil
}

// launch dials in the background: the dial is nobody's own, and goes on when the
// caller that asked for it first is cancelled and others wait.
func (p *pool) launch() *flight {
	ctx, cancel := context.WithCancel(context.Background())
	f := &flight{done: make(chan struct{}), cancel: cancel}
	p.flight = f
	go func() {
		defer cancel()
		s, err := p.dial(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flight == f {
			p.flight = nil
		}
		if f.err = err; err == nil {
			p.add(s)
		}
		close(f.done)
	}()
	return f
}

// add takes a new connection in and watches it.
func (p *pool) add(s *ssh.Client) {
	c := &client{ssh: s, dead: make(chan struct{})}
	c.timer = time.AfterFunc(p.t.idle, func() { p.closeIdle(c) })
	p.clients = append(p.clients, c)
	go func() {
		_ = s.Wait()
		close(c.dead)
		p.discard(c)
	}()
	go c.keepAlive(p.t.keepAlive, p.t.misses)
}

// open opens a channel on c, whose place has been counted. A failure gives the
// place back.
func (p *pool) open(ctx context.Context, c *client) (*ssh.Session, error) {
	type result struct {
		s   *ssh.Session
		err error
	}
	got := make(chan result, 1)
	go func() {
		s, err := c.ssh.NewSession()
		got <- result{s, err}
	}()
	limit := time.NewTimer(p.t.open)
	defer limit.Stop()
	var err error
	select {
	case r := <-got:
		if r.err == nil {
			p.mu.Lock()
			c.served = true
			p.mu.Unlock()
			return r.s, nil
		}
		p.release(c)
		return nil, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = errors.New("the server does not answer")
	}
	// What is opened after all is closed again.
	go func() {
		if r := <-got; r.err == nil {
			r.s.Close()
		}
		p.release(c)
	}()
	return nil, err
}

// refused notes that c takes no more channels than it has. It returns true if the
// server takes none at all.
func (p *pool) refused(c *client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.open > 0 {
		c.limit = c.open
		return false
	}
	// Either it has never opened one, or it still counts channels that are
	// closed here: of no use in both cases.
	p.drop(c)
	return !c.served
}

// release gives the place of a closed channel back.
func (p *pool) release(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.open--; c.open == 0 {
		c.timer.Reset(p.t.idle)
	}
}

func (p *pool) closeIdle(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.open == 0 {
		p.drop(c)
	}
}

// discard closes c and forgets it.
func (p *pool) discard(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
}

func (p *pool) drop(c *client) {
	c.timer.Stop()
	for i, have := range p.clients {
		if have == c {
			p.clients = append(p.clients[:i:i], p.clients[i+1:]...)
		}
	}
	// Closing sends a message, and a dead line takes none for a while.
	go c.ssh.Close()
}

// keepAlive probes the connection until it is gone, and closes one that does not
// answer: whatever waits on it then fails, and its sessions dial again.
func (c *client) keepAlive(every time.Duration, misses int) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	answered := make(chan error, 1)
	pending, missed := false, 0
	for {
		select {
		case <-c.dead:
			return
		case err := <-answered:
			if err != nil {
				c.ssh.Close()
				return
			}
			pending, missed = false, 0
		case <-tick.C:
			if pending {
				if missed++; missed == misses {
					c.ssh.Close()
					return
				}
				continue
			}
			pending = true
			go func() {
				_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
				answered <- err
			}()
		}
	}
}
