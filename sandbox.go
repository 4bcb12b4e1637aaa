package berth

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Sandbox is one place to work. Provision, Attach and New make one.
type Sandbox struct {
	driver   driver.Driver
	spec     *spec.Spec
	options  ProvisionOptions
	attached bool

	// ending holds one token while an end is under way.
	ending chan struct{}
	sleep  sleep

	mu      sync.Mutex
	auditor *auditing // nil: nothing is recorded
	sleeper *sleeper  // nil: nothing suspends the place when it is idle
	attempt *attempt  // the start under way or done; nil before the first and after a failed one
	fate    fate      // what has been asked for; calls are refused from then on
	ended   fate      // what has been carried out
}

// attempt is one start of a place, shared by all who wait for it. session and err
// are set before done is closed.
type attempt struct {
	done    chan struct{}
	session driver.Session
	err     error

	cancel    context.CancelFunc
	waiters   int  // guarded by Sandbox.mu
	abandoned bool // nobody waited any more; guarded by Sandbox.mu
}

// ID names the place in messages and listings. It is "" before the first use of a
// Sandbox that New made.
func (sb *Sandbox) ID() string {
	if session := sb.started(); session != nil {
		return session.ID()
	}
	return ""
}

// Key is the key of the spec; "" for a place without one.
func (sb *Sandbox) Key() Key { return sb.spec.Key }

// Caps says what this very place can do and enforces now.
func (sb *Sandbox) Caps(ctx context.Context) (Caps, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return Caps{}, sb.wrap(err, "caps", "")
	}
	return session.Caps(), nil
}

// Status asks the place how it is.
func (sb *Sandbox) Status(ctx context.Context) (Status, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return Status{}, sb.wrap(err, "status", "")
	}
	status, err := session.Status(ctx)
	return status, sb.wrap(err, "status", "")
}

// Ping makes one round trip to the place.
func (sb *Sandbox) Ping(ctx context.Context) error {
	session, err := sb.session(ctx)
	if err != nil {
		return sb.wrap(err, "ping", "")
	}
	if p, ok := session.(driver.Pinger); ok {
		return sb.wrap(p.Ping(ctx), "ping", "")
	}
	_, err = session.Status(ctx)
	return sb.wrap(err, "ping", "")
}

// wrap adds what this Sandbox knows to an error, once.
func (sb *Sandbox) wrap(err error, op, path string) error {
	if err == nil {
		return nil
	}
	return spec.Wrap(err, op, sb.driver.Name(), sb.ID(), path)
}

// started returns the session if there is one, without waiting.
func (sb *Sandbox) started() driver.Session {
	sb.mu.Lock()
	a := sb.attempt
	sb.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.done:
		return a.session
	default:
		return nil
	}
}

// session returns the session of the place, starting it if need be. Every call that
// reaches the driver's session comes through here.
func (sb *Sandbox) session(ctx context.Context) (driver.Session, error) {
	sb.sleep.calls.Add(1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a, err := sb.join(ctx)
		if err != nil {
			return nil, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			sb.leave(a)
			return nil, ctx.Err()
		}
		if a.err == nil {
			if err := sb.wake(ctx); err != nil {
				return nil, err
			}
			return a.session, nil
		}
		// A start that was given up by those before is not this caller's failure.
		sb.mu.Lock()
		abandoned := a.abandoned
		sb.mu.Unlock()
		if !abandoned {
			return nil, a.err
		}
	}
}

// join returns the present attempt, or begins one.
func (sb *Sandbox) join(ctx context.Context) (*attempt, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if sb.fate != alive {
		return nil, sb.fate.err()
	}
	if sb.attempt == nil {
		sb.attempt = sb.begin(ctx)
	}
	sb.attempt.waiters++
	return sb.attempt, nil
}

// leave is for a waiter who does not wait any more: the last one ends the start.
func (sb *Sandbox) leave(a *attempt) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	a.waiters--
	if a.waiters == 0 && a.cancel != nil {
		a.abandoned = true
		a.cancel()
	}
}

// begin starts an attempt. It is bound to all who wait for it and not to the one
// caller who came first; that one's values (a trace) go with it.
func (sb *Sandbox) begin(ctx context.Context) *attempt {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &attempt{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer cancel()
		session, err := sb.open(ctx)
		sb.mu.Lock()
		a.session, a.err = session, err
		if err != nil {
			sb.attempt = nil
		}
		sb.mu.Unlock()
		close(a.done)
	}()
	return a
}
