package berth

import (
	"context"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// fate is how far the end of a Sandbox has gone; a higher one includes the lower.
type fate int

const (
	alive fate = iota
	detached
	closed
	destroyed
)

// err is what a call on such a Sandbox gets.
func (f fate) err() error {
	text := map[fate]string{
		detached:  "the sandbox was detached",
		closed:    "the sandbox was closed",
		destroyed: "the sandbox was destroyed",
	}[f]
	return spec.New(spec.CodeNotFound, text)
}

// Close ends the sandbox: it stops the place if Spec.Persist is set, and otherwise
// removes it and returns when it is gone. A place that was attached to is let go of
// and stays. Closing a Sandbox that never started makes no call. Close is
// idempotent; one that failed may be repeated.
func (sb *Sandbox) Close(ctx context.Context) error { return sb.end(ctx, "close", closed) }

// Destroy removes the place, persistent and attached ones too, and returns when it
// is gone. It is idempotent; one that failed may be repeated. Of a Sandbox that
// never started it removes the place that has the key, if there is one.
func (sb *Sandbox) Destroy(ctx context.Context) error { return sb.end(ctx, "destroy", destroyed) }

// Detach lets go of the place: commands without a key end, the place stays, also
// through a later Close. One with a key is found again by Attach and Provision; one
// without is reaped by its guest. Detach is idempotent.
func (sb *Sandbox) Detach(ctx context.Context) error { return sb.end(ctx, "detach", detached) }

func (sb *Sandbox) end(ctx context.Context, op string, want fate) error {
	select {
	case sb.ending <- struct{}{}:
		defer func() { <-sb.ending }()
	case <-ctx.Done():
		return ctx.Err()
	}
	sb.stopSleeping(ctx)
	sb.mu.Lock()
	sb.fate = max(sb.fate, want)
	a, ended, late := sb.attempt, sb.ended, sb.sleeper
	sb.sleeper = nil
	sb.mu.Unlock()
	late.stop()
	if ended >= want {
		return nil
	}
	var session driver.Session
	if a != nil {
		// A start under way is awaited and not cancelled: only a place that is
		// known can be removed with certainty.
		select {
		case <-a.done:
			session = a.session
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := sb.carryOutAudited(ctx, session, ended, want); err != nil {
		return sb.wrap(err, op, "")
	}
	sb.mu.Lock()
	sb.ended = want
	sb.mu.Unlock()
	return nil
}

// carryOutAudited is carryOut with its records. An end is not held up by one that fails.
func (sb *Sandbox) carryOutAudited(ctx context.Context, session driver.Session, before, want fate) error {
	var a *action
	switch {
	case want == destroyed:
		a, _ = sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditDestroy})
	case want == closed && session != nil && !sb.attached: // otherwise the place stays as it is
		a, _ = sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditClose})
	}
	err := sb.carryOut(ctx, session, before, want)
	a.end(err, nil)
	return err
}

// carryOut does what want asks for and before did not do.
func (sb *Sandbox) carryOut(ctx context.Context, session driver.Session, before, want fate) error {
	switch {
	case session == nil && (want < destroyed || sb.spec.Key == ""):
		return nil // nothing was ever started
	case before == detached && want == closed:
		return nil // let go of on purpose: a deferred Close leaves it so
	case before == closed && !sb.attached && !sb.spec.Persist:
		return nil // Close has removed it
	}
	key, err := sb.placeKey(ctx, session, want)
	if session != nil && before == alive {
		if closeErr := session.Close(ctx); err == nil {
			err = closeErr
		}
	}
	o := ReapOptions{Authority: sb.options.Authority}
	switch {
	case want == detached, want == closed && sb.attached:
		return err
	case key == "":
		return err // its guest has ended it, or will
	case want == closed && sb.spec.Persist:
		return sb.driver.(driver.Stopper).Stop(ctx, key, o)
	default:
		// Once the place is gone it no longer matters how the hold on it ended.
		return sb.driver.Reap(ctx, key, o)
	}
}

// placeKey returns the key to remove a place by. The driver has made one up for a
// spec without; only its listing tells.
func (sb *Sandbox) placeKey(ctx context.Context, session driver.Session, want fate) (Key, error) {
	if sb.spec.Key != "" || want < closed {
		return sb.spec.Key, nil
	}
	owned, err := sb.driver.Owned(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range owned {
		if o.ID == session.ID() {
			return o.Key, nil
		}
	}
	return "", nil
}
