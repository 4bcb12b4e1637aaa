package engine

import (
	"context"
	"hash/fnv"
	"io"
	"math"
	"sync"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
	"golang.org/x/sync/semaphore"
)

// Exec starts a program inside a container and returns its stdin and stdout. The container
// is not frozen by this process before the program has written something, or has ended: an
// engine that freezes a container while a program is being started there may wait for that
// program, with all that it knows of the container locked, until somebody lets it go on.
// Then it answers no Inspect, and after one of those no Thaw either.
func (e *Engine) Exec(ctx context.Context, auth driver.Authority, id string, argv []string) (io.ReadWriteCloser, error) {
	gate := e.gates.of(id)
	if gate.Acquire(ctx, 1) != nil {
		return nil, ended(ctx)
	}
	started := sync.OnceFunc(func() { gate.Release(1) })
	exec, err := e.execCreate(ctx, auth, id, argv)
	if err != nil {
		started()
		return nil, err
	}
	stream, err := e.execAttach(ctx, auth, exec)
	if err != nil {
		started()
		return nil, err
	}
	return &starting{stream, started}, nil
}

// gates keep what is started in a container, which takes 1 of a gate, apart from its
// freezing, which takes all of it; several containers may share one.
type gates [64]*semaphore.Weighted

const wholeGate = math.MaxInt64

func newGates() *gates {
	var g gates
	for i := range g {
		g[i] = semaphore.NewWeighted(wholeGate)
	}
	return &g
}

func (g *gates) of(id string) *semaphore.Weighted {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // to memory
	return g[h.Sum32()%uint32(len(g))]
}

// starting is the stream to a program that is being started.
type starting struct {
	io.ReadWriteCloser
	started func()
}

// Read implements io.Reader.
func (s *starting) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	s.started()
	return n, err
}

// Close implements io.Closer.
func (s *starting) Close() error {
	s.started()
	return s.ReadWriteCloser.Close()
}

// execCreate prepares a program to be run inside a container.
func (e *Engine) execCreate(ctx context.Context, auth driver.Authority, id string, argv []string) (string, error) {
	var exec string
	err := e.Do(ctx, Call{Authority: auth, What: "create exec"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: argv})
		exec = res.ID
		return err
	})
	return exec, err
}

// execAttach starts a prepared program and returns its stdin and stdout. Whatever
// goes wrong here is about the exec: it never says that the container is missing.
func (e *Engine) execAttach(ctx context.Context, auth driver.Authority, exec string) (io.ReadWriteCloser, error) {
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
