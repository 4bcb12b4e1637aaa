package place

import (
	"cmp"
	"context"
	"errors"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/snapshot"
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
	// What a snapshot has frozen is no suspension: one of this process is waited for.
	done, err := d.engine.Turn(ctx, containerName(d.options.Owner, key))
	if err != nil {
		return err
	}
	defer done()
	id, passing, err := d.suspended(ctx, o.Authority, key)
	if err == nil && passing {
		err = d.snapshots().Break(ctx, o.Authority, containerName(d.options.Owner, key))
	}
	if err != nil || id != "" && !passing {
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
	if err := d.letGo(d.claim(ctx, o.Authority, c)); err != nil {
		return err
	}
	now, err := d.engine.Settled(ctx, o.Authority, c.ID, container.StatePaused)
	if err == nil && now == container.StatePaused {
		// No guest had a say, and nobody was told why it did not go on.
		err = d.engine.Thaw(ctx, o.Authority, c.ID)
	}
	return err
}

// suspended returns the id of the container of key if it is suspended, else "", and whether
// it is so in passing, for a snapshot.
func (d *Driver) suspended(ctx context.Context, auth driver.Authority, key spec.Key) (id string, passing bool, _ error) {
	name := containerName(d.options.Owner, key)
	return d.engine.Frozen(ctx, auth, name, d.labelled(key), snapshot.HoldOn(name))
}

// look describes the container that has the name of key. One that is suspended goes on
// first; its status is StatePaused all the same, for whoever has to put it back, unless a
// snapshot of it is being taken.
func (d *Driver) look(ctx context.Context, auth driver.Authority, key spec.Key) (*container.InspectResponse, error) {
	name := containerName(d.options.Owner, key)
	return d.engine.Look(ctx, auth, name, d.labelled(key), snapshot.HoldOn(name))
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
	if spec.CodeOf(err) == spec.CodeStaleOwner {
		err = d.putBack(ctx, c, err)
	}
	return session, err
}

// putBack suspends a container again that look has let go on, for a call that is refused, or
// has done. An error that there is already is the one that matters.
func (d *Driver) putBack(ctx context.Context, c *container.InspectResponse, err error) error {
	if c.State.Status != container.StatePaused {
		return err
	}
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	return cmp.Or(err, d.engine.Freeze(bg, driver.Authority{}, c.ID))
}

// connect is enter for those who mean the place to go on: one that is suspended, since it
// was looked at or by an engine's account that lags behind what it did, goes on.
func (d *Driver) connect(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	for try := 1; ; try++ {
		session, err := d.enter(ctx, auth, c)
		if !errors.Is(err, errSuspended) || try == thawTries {
			return session, err
		}
		_, passing, err := d.suspended(ctx, auth, spec.Key(c.Config.Labels[labelKey]))
		if err == nil {
			err = d.engine.Thaw(ctx, auth, c.ID)
		}
		if err != nil {
			return nil, err
		}
		if !passing {
			c.State.Status = container.StatePaused
		}
		if try == 1 {
			continue
		}
		if err := engine.Pause(ctx, engine.PollEvery); err != nil {
			return nil, err
		}
	}
}
