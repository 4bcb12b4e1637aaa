package place

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
)

// open connects to the guest of a running container.
func (d *Driver) open(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	dial := func(ctx context.Context) (io.ReadWriteCloser, error) { return d.dial(ctx, auth, c) }
	stream, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return guest.Open(ctx, stream, guest.OpenOptions{
		ID: placeID(c), Caps: d.placeCaps(c), Limits: placeLimits(c), Authority: auth, Profile: guest.Local(), Redial: dial,
	})
}

// dial makes one connection: an exec of the guest's relay. It means this container
// and no later one of the same name.
func (d *Driver) dial(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (io.ReadWriteCloser, error) {
	exec, err := d.engine.ExecCreate(ctx, auth, c.ID, []string{guestPath, "relay", "--abstract", c.Config.Labels[labelListen], "--peer-pid", "1"})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case cerrdefs.IsConflict(err):
		return nil, d.whyNot(ctx, auth, c, err)
	case err != nil:
		return nil, err
	}
	stream, err := d.engine.ExecAttach(ctx, auth, exec)
	if err != nil {
		return nil, err
	}
	if d.options.Transport != nil {
		stream = d.options.Transport(stream)
	}
	return stream, nil
}

// whyNot says why a container takes no exec: its state is asked, not the words of
// the refusal.
func (d *Driver) whyNot(ctx context.Context, auth driver.Authority, c *container.InspectResponse, refusal error) error {
	now, err := d.engine.Inspect(ctx, auth, c.ID)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case err != nil:
		return err
	case now.State.Status == container.StatePaused:
		return d.paused(now)
	case now.State.Status == container.StateRunning:
		return refusal
	}
	return notRunning(now)
}
