package engine

import (
	"context"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

// ExecCreate prepares a program to be run inside a container.
func (e *Engine) ExecCreate(ctx context.Context, auth driver.Authority, id string, argv []string) (string, error) {
	var exec string
	err := e.Do(ctx, Call{Authority: auth, What: "create exec"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: argv})
		exec = res.ID
		return err
	})
	return exec, err
}

// ExecAttach starts a prepared program and returns its stdin and stdout. Whatever
// goes wrong here is about the exec: it never says that the container is missing.
func (e *Engine) ExecAttach(ctx context.Context, auth driver.Authority, exec string) (io.ReadWriteCloser, error) {
	var stream *relayed
	err := e.Do(ctx, Call{Authority: auth, What: "start exec"}, func(ctx context.Context, api *client.Client) error {
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
