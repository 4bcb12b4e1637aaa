package berth

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// MinSuspendAfter is the shortest time without use after which a place is suspended.
const MinSuspendAfter = time.Second

// sleepTime bounds one attempt to suspend a place.
const sleepTime = 30 * time.Second

// sleeper suspends the place of a Sandbox when it is not used.
type sleeper struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// sleep is what calls and a sleeper know of each other. A call counts itself first and looks
// at asleep then; a sleeper does it the other way round: one of them sees the other.
type sleep struct {
	calls  atomic.Uint64
	asleep atomic.Bool
	// turn holds one token while the place is being suspended or resumed for this.
	turn chan struct{}
}

// take takes the turn, unless ctx ends first: who has it may wait for a place that does not
// answer.
func (s *sleep) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sleep) giveBack() { <-s.turn }

// SuspendWhenIdle suspends the place whenever it has not been used for after, and resumes
// it at the next call of this Sandbox, which is told nothing of it. In use it is while a
// command, job or terminal runs, a connection into it is open, another client is there, or
// a call of this Sandbox goes on; Status.UnusedFor measures that. Events and watches do not
// count, and are silent meanwhile. A place that has not started is left alone.
//
// It goes on until Close, Detach or Destroy, which resume the place first, or until a call with
// another time; 0 ends it, any other below MinSuspendAfter is ErrInvalid. Where Caps.Suspend
// is false it is ErrUnsupported. A suspension that fails is tried again after the same time.
func (sb *Sandbox) SuspendWhenIdle(after time.Duration) error {
	_, ok := sb.driver.(driver.Suspender)
	switch session := sb.started(); {
	case after != 0 && after < MinSuspendAfter:
		return sb.wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("suspend after %v: want 0 (never) or at least %v", after, MinSuspendAfter)), "suspend", "")
	case !ok, session != nil && !session.Caps().Suspend:
		return sb.wrap(spec.New(spec.CodeUnsupported, "places of this backend cannot be suspended"), "suspend", "")
	}
	var next *sleeper
	if after > 0 {
		next = sb.startSleeper(after)
	}
	sb.mu.Lock()
	fate, before := sb.fate, sb.sleeper
	if fate == alive {
		sb.sleeper = next
	}
	sb.mu.Unlock()
	if fate != alive {
		next.stop()
		return sb.wrap(fate.err(), "suspend", "")
	}
	before.stop()
	return nil
}

func (sb *Sandbox) startSleeper(after time.Duration) *sleeper {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sleeper{cancel, make(chan struct{})}
	go func() {
		defer close(s.done)
		sb.sleepWhenIdle(ctx, after)
	}()
	return s
}

// stop ends a sleeper, if there is one, and returns when it has ended.
func (s *sleeper) stop() {
	if s != nil {
		s.cancel()
		<-s.done
	}
}

// sleepWhenIdle is a sleeper.
func (sb *Sandbox) sleepWhenIdle(ctx context.Context, after time.Duration) {
	wait := after
	for {
		calls := sb.sleep.calls.Load()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = after
		switch session := sb.started(); {
		case session == nil:
		case sb.sleep.asleep.Load():
			sb.findAwake(ctx)
		default:
			wait = sb.fallAsleep(ctx, session, calls, after)
		}
	}
}

// findAwake finds out that a place runs that counts as suspended: that may have failed, and
// others may have resumed it.
func (sb *Sandbox) findAwake(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sleepTime)
	defer cancel()
	if sb.sleep.take(ctx) != nil { // a call that waits for the place has it
		return
	}
	defer sb.sleep.giveBack()
	owned, err := sb.driver.Owned(ctx)
	if err != nil {
		return
	}
	for _, o := range owned {
		if o.ID == sb.ID() && o.State == spec.StateRunning {
			sb.sleep.asleep.Store(false)
		}
	}
}

// fallAsleep suspends the place if there was no call since calls were counted and it is not
// used otherwise. It returns when to look again.
func (sb *Sandbox) fallAsleep(ctx context.Context, session driver.Session, calls uint64, after time.Duration) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, sleepTime)
	defer cancel()
	if sb.sleep.take(ctx) != nil {
		return after
	}
	defer sb.sleep.giveBack()
	st, err := session.Status(ctx)
	switch {
	case err != nil:
		return after
	case st.UnusedFor > 0 && st.UnusedFor < after:
		return after - st.UnusedFor
	case !unused(st, after):
		return after
	}
	sb.sleep.asleep.Store(true)
	if sb.sleep.calls.Load() != calls {
		sb.sleep.asleep.Store(false)
		return after
	}
	err = sb.Suspend(ctx)
	if code := spec.CodeOf(err); err != nil && ctx.Err() == nil && code != spec.CodeUnavailable && code != spec.CodeUnknownOutcome {
		sb.sleep.asleep.Store(false) // it is certain that it runs, or is gone
	}
	return after
}

// unused reports whether nobody uses a place of which its own client has asked st.
func unused(st Status, after time.Duration) bool {
	return st.State == spec.StateRunning && st.Clients <= 1 && st.Commands == 0 && st.UnusedFor >= after
}

// wake resumes the place if a sleeper has suspended it.
func (sb *Sandbox) wake(ctx context.Context) error {
	if !sb.sleep.asleep.Load() {
		return nil
	}
	if err := sb.sleep.take(ctx); err != nil {
		return err
	}
	defer sb.sleep.giveBack()
	if !sb.sleep.asleep.Load() {
		return nil
	}
	err := sb.Resume(ctx)
	if err == nil {
		sb.sleep.asleep.Store(false)
	}
	return err
}

// stopSleeping ends the sleeper and resumes what it has suspended, so that a place can be
// let go of.
func (sb *Sandbox) stopSleeping(ctx context.Context) {
	sb.mu.Lock()
	s := sb.sleeper
	sb.sleeper = nil
	sb.mu.Unlock()
	s.stop()
	_ = sb.wake(ctx) // a place that does not answer is let go of as it is
}

// SuspendIdle suspends those running places of d's owner that have not been used for at
// least after and to which nobody is connected, and returns them; it is for a program that
// looks every minute, say. A place without a key, which ends by itself, is left alone. What
// fails for one place does not keep it from the others, and is told in the end.
//
// A client that comes at the very moment at which its place is suspended finds it suspended:
// Attach and Provision resume it, a call on a Sandbox waits.
func SuspendIdle(ctx context.Context, d driver.Driver, after time.Duration, o ReapOptions) ([]Owned, error) {
	s, ok := d.(driver.Suspender)
	switch {
	case after < MinSuspendAfter:
		return nil, spec.Wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("idle for %v: want at least %v", after, MinSuspendAfter)), "suspend", d.Name(), "", "")
	case !ok:
		return nil, spec.Wrap(spec.New(spec.CodeUnsupported, "places of this backend cannot be suspended"), "suspend", d.Name(), "", "")
	}
	owned, err := List(ctx, d)
	if err != nil {
		return nil, err
	}
	var suspended []Owned
	var failed []error
	for _, place := range owned {
		if place.State != spec.StateRunning || place.Ephemeral {
			continue
		}
		idle, err := idleFor(ctx, d, place.Key, after, o)
		if idle && err == nil {
			err = spec.Wrap(s.Suspend(ctx, place.Key, o), "suspend", d.Name(), place.ID, "")
		}
		switch {
		case errors.Is(err, spec.ErrNotFound): // it has ended meanwhile
		case err != nil:
			failed = append(failed, err)
		case idle:
			suspended = append(suspended, place)
		}
		if ctx.Err() != nil {
			if !errors.Is(errors.Join(failed...), ctx.Err()) {
				failed = append(failed, ctx.Err())
			}
			break
		}
	}
	return suspended, errors.Join(failed...)
}

// idleFor reports whether a place that runs is not used.
func idleFor(ctx context.Context, d driver.Driver, key Key, after time.Duration, o ReapOptions) (bool, error) {
	sb, err := AttachWith(ctx, d, key, AttachOptions(o))
	if err != nil {
		return false, err
	}
	st, err := sb.Status(ctx)
	return unused(st, after), errors.Join(err, sb.Detach(context.WithoutCancel(ctx)))
}
