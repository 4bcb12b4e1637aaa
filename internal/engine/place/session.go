package place

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
)

// session is a guest's, of a place of which the engine knows more.
type session struct {
	*guest.Session
	driver *Driver
	auth   driver.Authority
	place  *container.InspectResponse // as it was found
}

func (d *Driver) session(s *guest.Session, auth driver.Authority, c *container.InspectResponse) *session {
	return &session{Session: s, driver: d, auth: auth, place: c}
}

// Status implements driver.Session.
func (s *session) Status(ctx context.Context) (spec.Status, error) {
	st, err := s.Session.Status(ctx)
	st.Image, st.User, st.Workdir = s.place.Config.Image, s.place.Config.User, s.place.Config.Labels[labelWorkdir]
	st.Mounts = mounts.Of(s.place, directDir)
	return st, err
}

// open connects to the guest of a running container.
func (d *Driver) open(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	redial := func(ctx context.Context) (io.ReadWriteCloser, error) {
		return d.dial(ctx, auth, d.again(ctx, auth, c), false)
	}
	stream, err := d.dial(ctx, auth, c, !alive(c))
	if err != nil {
		return nil, err
	}
	return guest.Open(ctx, stream, guest.OpenOptions{
		ID: placeID(c), Caps: d.placeCaps(c, d.canPause(ctx, auth)), Limits: placeLimits(c), Authority: auth, Profile: guest.Local(), Redial: redial,
	})
}

// canPause reports whether the engine can suspend a container, as all can but for some of
// those that have an API to ask.
func (d *Driver) canPause(ctx context.Context, auth driver.Authority) bool {
	if !d.engine.Libpod {
		return true
	}
	f, err := d.engine.Known(ctx, auth)
	return err != nil || f.Pause
}

// dial makes one connection, directly or by the engine. It means this container and no later
// one of the same name. starting: its guest may not be there yet.
func (d *Driver) dial(ctx context.Context, auth driver.Authority, c *container.InspectResponse, starting bool) (io.ReadWriteCloser, error) {
	stream, err := d.dialDirect(ctx, c, starting), error(nil)
	if stream == nil {
		stream, err = d.relay(ctx, auth, c)
	}
	if err == nil && d.options.Transport != nil {
		stream = d.options.Transport(stream)
	}
	return stream, err
}

// relay makes a connection that is an exec of the guest's relay.
func (d *Driver) relay(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (io.ReadWriteCloser, error) {
	stream, err := d.engine.Exec(ctx, auth, c.ID, []string{guestPath, "relay", "--abstract", c.Config.Labels[labelListen], "--peer-pid", "1"})
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return nil, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case cerrdefs.IsConflict(err), cerrdefs.IsInternal(err): // Podman says the latter of one that has stopped
		return nil, d.whyNot(ctx, auth, c, err)
	case err != nil:
		return nil, err
	}
	return stream, nil
}

// whyNot says why a container takes no exec: its state is asked, not the words of
// the refusal. One that is being stopped counts as running, for a moment.
func (d *Driver) whyNot(ctx context.Context, auth driver.Authority, c *container.InspectResponse, refusal error) error {
	now, err := d.engine.Settled(ctx, auth, c.ID, container.StateRunning)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case err != nil:
		return err
	case now == container.StatePaused:
		return d.paused(c)
	case now == container.StateRunning:
		return refusal
	}
	return notRunning(c, now)
}
