package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/filesys"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// session is one client's hold on a place.
type session struct {
	p         *place
	caps      spec.Caps
	authority driver.Authority
	client    string // its name in events

	boot int           // of the place, when the session was opened
	over chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	mine   map[*command]bool // without a key, that run
}

var (
	_ driver.Session = (*session)(nil)
	_ driver.Pinger  = (*session)(nil)
	_ driver.Jobber  = (*session)(nil)
)

// open returns a session of a place that runs.
func (p *place) open(d *Driver, a driver.Authority) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.removed || p.kernel == nil {
		return nil, errNoPlace
	}
	if err := p.admitsLocked(a); err != nil {
		return nil, err
	}
	p.epoch = a.Epoch
	s := &session{p: p, caps: p.caps, authority: a, boot: p.boot, over: make(chan struct{}), mine: map[*command]bool{}}
	s.caps.Backend = d.options.Name
	p.lastID++
	s.client = fmt.Sprintf("client-%d", p.lastID)
	p.clients[s] = true
	p.feed.Record(spec.Event{Kind: spec.EventClient, Client: s.client})
	p.adjustLocked()
	return s, nil
}

// do is what every operation of a session passes through.
func (s *session) do(ctx context.Context, r Request, op func() error) error {
	r.Key = s.p.key
	return s.p.w.request(ctx, r, s.authority, s.p, func() error {
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return errClosed
		}
		if err := s.valid(); err != nil {
			return err
		}
		return op()
	})
}

// ask is do for an operation with a result, of which an error leaves nothing.
func ask[T any](ctx context.Context, s *session, r Request, op func() (T, error)) (T, error) {
	var out, none T
	err := s.do(ctx, r, func() (err error) {
		out, err = op()
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// life is ctx until the session is closed. end is to be called; it has no effect then.
func (s *session) life(ctx context.Context) (life context.Context, end context.CancelCauseFunc) {
	life, end = context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.over:
			end(errClosed)
		case <-life.Done():
		}
	}()
	return life, end
}

// valid says why the session can do nothing any more, or for now.
func (s *session) valid() error {
	if _, err := s.p.system(); err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.boot != s.p.boot {
		return spec.New(spec.CodeUnavailable, "the place was stopped since")
	}
	return s.p.admitsLocked(s.authority)
}

func (s *session) ID() string      { return s.p.id }
func (s *session) Caps() spec.Caps { return s.caps }

// Files implements driver.Session.
func (s *session) Files() files.FS {
	return &filesys.FS{Files: s.p.fs, Disk: &s.p.disk, Tell: s.Tell, Do: func(ctx context.Context, op, name string, do func() error) error {
		return s.do(ctx, Request{Op: Op(op), Path: name}, do)
	}}
}

func (s *session) Ping(ctx context.Context) error {
	return s.do(ctx, Request{Op: OpPing}, func() error { return nil })
}

func (s *session) Status(ctx context.Context) (spec.Status, error) {
	return ask(ctx, s, Request{Op: OpStatus}, s.p.status)
}

func (p *place) status() (spec.Status, error) {
	k, err := p.system()
	if err != nil {
		return spec.Status{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	out := spec.Status{
		State: spec.StateRunning, Started: k.Booted(), Uptime: max(now.Sub(k.Booted()), 1), Clients: len(p.clients), Commands: p.running,
		IdleIn: -1, ExpiresIn: -1, GuestVersion: "fake",
	}
	switch {
	case !p.idleDue.IsZero():
		out.IdleIn = max(p.idleDue.Sub(now), 0)
	case p.ephemeral:
		out.IdleIn = p.orphan
	case p.spec.IdleTimeout > 0:
		out.IdleIn = p.spec.IdleTimeout
	}
	if p.end != nil {
		out.ExpiresIn = max(p.ends.Sub(now), 0)
	}
	return out, nil
}

// Close ends the commands of the session that have no key, and returns when they have
// ended.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	already := s.closed
	if s.closed = true; !already {
		close(s.over)
	}
	mine := slices.Collect(maps.Keys(s.mine))
	s.mu.Unlock()
	if already {
		return nil
	}
	s.network().Leave(s, errPlaceEnded)
	s.p.terminals.Leave(s, errSessionClosed)
	for _, c := range mine {
		c.abandon()
		c.kill(c.grace, "abandoned", s.client)
	}
	for _, c := range mine {
		select {
		case <-c.finished:
		case <-ctx.Done():
			c.kill(0, "abandoned", s.client)
		}
	}
	s.p.mu.Lock()
	delete(s.p.clients, s)
	s.p.feed.Record(spec.Event{Kind: spec.EventClient, Client: s.client, Ended: true})
	s.p.adjustLocked()
	s.p.mu.Unlock()
	return ctx.Err()
}
