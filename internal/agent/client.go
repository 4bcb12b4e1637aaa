//go:build linux

package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/berth-dev/berth/internal/agent/fileserver"
	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/port"
	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/agent/terminal"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// maxClients bounds the connections of one way in at one time, those in their hello included.
const maxClients = 256

// helloTime is how long a peer has for its hello.
const helloTime = 10 * time.Second

// client is one connection after its hello.
type client struct {
	agent   *agent
	mux     *wire.Mux
	peer    *stream.Peer
	name    string // of the host's session: a redial keeps it
	epoch   uint64
	minor   int // of the host's protocol
	profile wire.Profile
}

// lost reports whether the connection is gone.
func (cl *client) lost() bool {
	select {
	case <-cl.mux.Done():
		return true
	default:
		return false
	}
}

// accept serves the connections of l that the policy lets in, until it is closed.
func (a *agent) accept(l net.Listener, policy peer.Policy) {
	slots := make(chan struct{}, maxClients)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // out of descriptors: some may come back
			continue
		}
		unixConn, ok := conn.(*net.UnixConn)
		if !ok || policy.Check(unixConn) != nil {
			conn.Close()
			continue
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				if policy == peer.Engine {
					defer peer.Awake(unixConn)()
				}
				_ = conn.SetDeadline(time.Now().Add(helloTime))
				a.converse(conn, func() { _ = conn.SetDeadline(time.Time{}) })
			}()
		default:
			conn.Close()
		}
	}
}

// converse serves one connection from its hello to its end. agreed is called when
// the hello is over.
func (a *agent) converse(conn io.ReadWriteCloser, agreed func()) {
	cl := &client{agent: a}
	h, err := wire.AcceptHello(conn, func(h *wire.HostHello) (*wire.GuestHello, error) {
		return a.greet(cl, h)
	})
	if err != nil {
		if h != nil && cl.name != "" {
			a.life.leave(cl)
		}
		conn.Close()
		return
	}
	agreed()
	mux, err := wire.GuestMux(conn, h.Profile)
	if err != nil {
		a.life.leave(cl)
		return
	}
	a.life.connected(cl, mux)
	for {
		s, err := mux.Accept()
		if err != nil {
			break
		}
		go cl.serve(s)
	}
	mux.Close()
	a.life.leave(cl)
}

// greet answers a host's hello and takes its client in.
func (a *agent) greet(cl *client, h *wire.HostHello) (*wire.GuestHello, error) {
	if h.ID != "" && h.ID != a.cfg.id {
		return nil, &spec.Error{Code: spec.CodeNotFound, Err: errors.New("another place answers here")}
	}
	if h.Client == "" || len(h.Client) > maxIDBytes {
		return nil, spec.New(spec.CodeInvalid, "the client has no name")
	}
	cl.name, cl.epoch, cl.minor, cl.profile = h.Client, h.Epoch, h.Minor, h.Profile.WithDefaults()
	highest, err := a.life.enter(cl)
	if err != nil {
		cl.name = ""
		return nil, err
	}
	tree := spec.KillTreeBestEffort
	if a.groups != nil {
		tree = spec.KillTreeConfirmed
	}
	return &wire.GuestHello{
		Version: Version(), ID: a.cfg.id, Epoch: highest,
		OS: runtime.GOOS, Arch: runtime.GOARCH, PID: os.Getpid(), UID: os.Getuid(),
		Workdir: wire.Bytes(a.cfg.workdir), Shell: proc.Executable("/bin/sh"), Coreutils: proc.HasCoreutils(proc.SearchPath(a.env)),
		KillTree: string(tree), CommandUser: a.changesUser, Jobs: a.jobs != nil, Terminals: terminal.Available(), ResumeMS: a.cfg.resume.Milliseconds(), Incarnation: a.incarnation,
	}, nil
}

// allowed refuses a request of an owner that a newer one has taken over from.
func (cl *client) allowed() error {
	if highest := cl.agent.life.highest(); cl.epoch < highest {
		return staleOwner(cl.epoch, highest)
	}
	return nil
}

func staleOwner(epoch, highest uint64) error {
	return &spec.Error{Code: spec.CodeStaleOwner, Err: fmt.Errorf("epoch %d is over, %d has been seen", epoch, highest)}
}

// serve serves one stream: its request, and to the end what the host still sends.
func (cl *client) serve(s *wire.Stream) {
	defer s.Close()
	defer stream.Discard(s)
	var req wire.Request
	if err := wire.ReadMessage(s, &req, 0); err != nil {
		return
	}
	if !req.Op.Looks() {
		cl.agent.life.used.Begin()
		defer cl.agent.life.used.End()
	}
	err := cl.allowed()
	if err == nil {
		err = cl.dispatch(s, &req)
	}
	switch {
	case err == nil || errors.Is(err, stream.ErrGone):
	case req.Op == wire.OpExec || req.Op == wire.OpAttach:
		_ = wire.WriteMessage(s, &wire.Event{Err: wire.FromError(err)})
	default:
		_ = wire.WriteMessage(s, &wire.Reply{Err: wire.FromError(err)})
	}
}

// dispatch serves req. An error that it returns has not been sent.
func (cl *client) dispatch(s *wire.Stream, req *wire.Request) error {
	a := cl.agent
	switch req.Op {
	case wire.OpPing:
		return stream.Reply(s, &wire.Reply{})
	case wire.OpStatus:
		return stream.Reply(s, &wire.Reply{Status: a.status()})
	case wire.OpBye:
		a.bye(cl.name)
		return stream.Reply(s, &wire.Reply{})
	case wire.OpShutdown:
		if req.Shutdown == nil || req.Shutdown.GraceMS < 0 || req.Shutdown.GraceMS > spec.MaxTimeout.Milliseconds() {
			return stream.ErrIncomplete
		}
		err := stream.Reply(s, &wire.Reply{})
		a.life.end(time.Duration(req.Shutdown.GraceMS) * time.Millisecond)
		return err
	case wire.OpExec:
		if req.Exec == nil {
			return stream.ErrIncomplete
		}
		return cl.exec(s, req.Exec)
	case wire.OpAttach:
		if req.Attach == nil {
			return stream.ErrIncomplete
		}
		return cl.attach(s, req.Attach)
	case wire.OpData:
		if req.Data == nil {
			return stream.ErrIncomplete
		}
		return cl.data(s, req.Data)
	case wire.OpTerminate:
		return cl.terminate(s, req.Terminate)
	case wire.OpRunning:
		return cl.running(s)
	case wire.OpEvents:
		return a.feed.Serve(s, req.Events, cl.allowed)
	}
	switch {
	case job.Serves(req.Op):
		return cl.job(s, req)
	case terminal.Serves(req.Op):
		return a.terminals.Serve(s, req, terminal.Host{Peer: cl.peer, Allowed: cl.allowed})
	case port.Serves(req.Op):
		return a.ports.Serve(s, req, cl.profile.ChunkBytes, cl.tell)
	}
	files := fileserver.Server{Files: a.files, Buffers: &a.buffers, ChunkBytes: cl.profile.ChunkBytes, Tell: cl.tell, Watches: &a.watches}
	return files.Serve(s, req)
}
