package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Output runs a container to its end and hands what it writes on stdout to read, as it comes,
// then removes it, but not its volumes. All of it passes through check, whose error is read's,
// and which is read to its end also where read has had enough. The error of a program that
// fails is CodeUnavailable, with what it has said on stderr: then what read was given is not
// all. Else an error of read is returned as it is.
func (e *Engine) Output(ctx context.Context, auth driver.Authority, o client.ContainerCreateOptions, check func(io.Reader) io.Reader, read func(context.Context, io.Reader) error) error {
	id, err := e.Create(ctx, auth, o)
	if err != nil {
		return err
	}
	defer func() {
		bg, cancel := Cleanup(ctx)
		defer cancel()
		_ = e.RemoveHelper(bg, auth, id) // or a prune does
	}()
	out, err := e.attach(ctx, auth, id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	defer out.Close()
	bounded, cancel := context.WithTimeout(ctx, TransferLimit)
	defer cancel()
	defer context.AfterFunc(bounded, out.Close)()
	if err := e.Start(ctx, auth, id); err != nil {
		return err
	}
	stdout := newDemux(out.Reader)
	body, end := passOn(check(stdout))
	if err = read(bounded, body); err != nil {
		out.Close() // nobody waits for the rest
	}
	body.Close()
	if whole := <-end; err == nil {
		err = whole
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	status, stateErr := e.exitStatus(ctx, auth, id)
	switch {
	case stateErr != nil:
		return stateErr
	case len(stdout.notes) > 0, err == nil && status != 0:
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("a helper ended with status %d: %.512q", status, stdout.notes)}
	}
	return err
}

// passOn is a reader of what is in r that may be closed, while somebody still reads it, and
// its end: r is read to that by nobody else.
func passOn(r io.Reader) (*io.PipeReader, <-chan error) {
	body, to := io.Pipe()
	end := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, r)
		if errors.Is(err, io.ErrClosedPipe) {
			_, err = io.Copy(io.Discard, r)
		}
		to.CloseWithError(err)
		end <- err
	}()
	return body, end
}

// exitStatus is that of a container whose output has ended. One that goes on is killed by
// whoever removes it.
func (e *Engine) exitStatus(ctx context.Context, auth driver.Authority, id string) (int, error) {
	if _, err := e.Settled(ctx, auth, id, container.StateRunning); err != nil {
		return 0, err
	}
	c, err := e.Inspect(ctx, auth, id)
	if err != nil {
		return 0, err
	}
	if c.State.Running {
		return 0, spec.New(spec.CodeUnavailable, "a helper does not end")
	}
	return c.State.ExitCode, nil
}
