package place

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// thawTries is how often a container is let go on that is suspended again each time. dockerd
// takes its runtime's reports for news also when they are older than what it did itself: for
// a moment it calls a container suspended that it has just let go on.
const thawTries = 10

// Suspend implements driver.Suspender. Sessions and commands of others stay: they stand
// still.
func (d *Driver) Suspend(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	id, err := d.suspended(ctx, o.Authority, key)
	if err != nil || id != "" {
		return err
	}
	c, err := d.find(ctx, o.Authority, key)
	switch {
	case err != nil:
		return err
	case !alive(c):
		return notRunning(c, c.State.Status)
	}
	if err := d.letGo(d.claim(ctx, o.Authority, c)); err != nil {
		return err
	}
	return d.engine.Freeze(ctx, o.Authority, c.ID)
}

// Resume implements driver.Suspender.
func (d *Driver) Resume(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	c, err := d.find(ctx, o.Authority, key)
	switch {
	case err != nil:
		return err
	case c.State.Status == container.StateRunning:
		return nil
	case !alive(c):
		return notRunning(c, c.State.Status)
	}
	return d.letGo(d.claim(ctx, o.Authority, c))
}

// suspended returns the id of the container of key if it is suspended, else "".
func (d *Driver) suspended(ctx context.Context, auth driver.Authority, key spec.Key) (string, error) {
	return d.engine.Frozen(ctx, auth, containerName(d.options.Owner, key), d.labelled(key))
}

// look describes the container that has the name of key. One that is suspended goes on
// first; its status is StatePaused all the same, for whoever has to put it back.
func (d *Driver) look(ctx context.Context, auth driver.Authority, key spec.Key) (*container.InspectResponse, error) {
	return d.engine.Look(ctx, auth, containerName(d.options.Owner, key), d.labelled(key))
}

func (d *Driver) labelled(key spec.Key) map[string]string {
	return map[string]string{labelOwner: d.options.Owner, labelKey: string(key)}
}

// alive reports whether the processes of a container are there.
func alive(c *container.InspectResponse) bool {
	return c.State.Status == container.StateRunning || c.State.Status == container.StatePaused
}

// letGo closes a session that has shown the guest an authority, if there is one. What
// becomes of that does not matter.
func (d *Driver) letGo(session *guest.Session, err error) error {
	if session != nil {
		bg, cancel := context.WithTimeout(context.Background(), claimLimit)
		defer cancel()
		_ = session.Close(bg)
	}
	return err
}

// enter opens a session of a container that look has found alive. One that was suspended
// and whose guest has seen a newer owner is suspended again.
func (d *Driver) enter(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	session, err := d.open(ctx, auth, c)
	if c.State.Status == container.StatePaused && spec.CodeOf(err) == spec.CodeStaleOwner {
		bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.CleanupLimit)
		defer cancel()
		_ = d.engine.Freeze(bg, driver.Authority{}, c.ID) // the refusal is what matters
	}
	return session, err
}

// connect is enter for those who mean the place to go on: one that is suspended, since it
// was looked at or by an engine's account that lags behind what it did, goes on.
func (d *Driver) connect(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	for try := 1; ; try++ {
		session, err := d.enter(ctx, auth, c)
		if !errors.Is(err, errSuspended) || try == thawTries {
			return session, err
		}
		if err := d.engine.Thaw(ctx, auth, c.ID); err != nil {
			return nil, err
		}
		c.State.Status = container.StatePaused
		if try == 1 {
			continue
		}
		if err := engine.Pause(ctx, engine.PollEvery); err != nil {
			return nil, err
		}
	}
}
