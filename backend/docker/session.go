package docker

import (
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// open connects to the guest of a running container.
func (d *docker) open(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	dial := func(ctx context.Context) (io.ReadWriteCloser, error) { return d.dial(ctx, auth, c) }
	stream, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	return guest.Open(ctx, stream, guest.OpenOptions{
		ID: placeID(c), Caps: placeCaps(c), Limits: placeLimits(c), Authority: auth, Profile: guest.Local(), Redial: dial,
	})
}

// dial makes one connection: an exec of the guest's relay. It means this container
// and no later one of the same name.
func (d *docker) dial(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (io.ReadWriteCloser, error) {
	exec, err := d.engine.execCreate(ctx, auth, c.ID, []string{guestPath, "relay", "--abstract", c.Config.Labels[labelListen], "--peer-pid", "1"})
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case cerrdefs.IsConflict(err):
		return nil, d.whyNot(ctx, auth, c, err)
	case err != nil:
		return nil, err
	}
	stream, err := d.engine.execAttach(ctx, auth, exec)
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
func (d *docker) whyNot(ctx context.Context, auth driver.Authority, c *container.InspectResponse, refusal error) error {
	now, err := d.engine.inspect(ctx, auth, c.ID)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is gone", placeID(c))}
	case err != nil:
		return err
	case now.State.Status == container.StatePaused:
		return paused(now)
	case now.State.Status == container.StateRunning:
		return refusal
	}
	return notRunning(now)
}

// execCreate prepares a program to be run inside a container.
func (e *engine) execCreate(ctx context.Context, auth driver.Authority, id string, argv []string) (string, error) {
	var exec string
	err := e.do(ctx, call{auth: auth, what: "create exec"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: argv})
		exec = res.ID
		return err
	})
	return exec, err
}

// execAttach starts a prepared program and returns its stdin and stdout. Whatever
// goes wrong here is about the exec: it never says that the container is missing.
func (e *engine) execAttach(ctx context.Context, auth driver.Authority, exec string) (io.ReadWriteCloser, error) {
	var stream *relayed
	err := e.do(ctx, call{auth: auth, what: "start exec"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ExecAttach(ctx, exec, client.ExecAttachOptions{})
		if err == nil {
			stream = &relayed{demux: newDemux(res.Reader), conn: res.Conn}
		}
		return err
	})
	if spec.CodeOf(err) == spec.CodeNotFound {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// relayed is the stream to a relay: what is written is its stdin, what is read its
// stdout. Close ends both, and with them the relay.
type relayed struct {
	*demux
	conn io.WriteCloser
}

func (r *relayed) Write(p []byte) (int, error) { return r.conn.Write(p) }
func (r *relayed) Close() error                { return r.conn.Close() }
