//go:build linux

package terminal

import (
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Host is the connection that a request came on.
type Host struct {
	Peer    *stream.Peer
	Allowed func() error // whether its owner has not been taken over from
}

// maxNameBytes bounds the name of a viewer, the id of a request.
const maxNameBytes = 256

func viewerName(name string) bool { return name != "" && len(name) <= maxNameBytes }

var errRange = spec.New(spec.CodeInvalid, "the request is out of range")

// Serves reports whether an operation is one on terminals.
func Serves(op wire.Op) bool {
	switch op {
	case wire.OpTerminalOpen, wire.OpTerminalView, wire.OpTerminalType, wire.OpTerminalResize, wire.OpTerminalList, wire.OpTerminalWait, wire.OpTerminalKill:
		return true
	}
	return false
}

// Serve serves one request on its stream. An error that it returns has not been sent.
func (r *Registry) Serve(s *wire.Stream, req *wire.Request, h Host) error {
	ask := req.Terminal
	switch {
	case ask == nil:
		return stream.ErrIncomplete
	case req.Op == wire.OpTerminalOpen:
		return r.serveOpen(s, req, h.Peer.Name)
	case req.Op == wire.OpTerminalList:
		return r.serveList(s)
	}
	find, id := r.find, ask.ID
	if req.Op == wire.OpTerminalKill && ask.Request != "" {
		if len(ask.Request) > maxNameBytes {
			return errRange
		}
		find, id = r.opened, ask.Request
	}
	t, err := find(id)
	if err != nil {
		return err
	}
	switch req.Op {
	case wire.OpTerminalView:
		return t.view(s, h.Peer, ask, h.Allowed, r.resume)
	case wire.OpTerminalType:
		return t.typed(s, ask, h.Allowed)
	case wire.OpTerminalResize:
		if ask.Size == nil || ask.Size.Validate() != nil {
			return errRange
		}
		if err := t.Resize(ask.Size.WithDefaults()); err != nil {
			return err
		}
		return stream.Reply(s, &wire.Reply{})
	case wire.OpTerminalKill:
		if ask.GraceMS < 0 || ask.GraceMS > spec.MaxTimeout.Milliseconds() {
			return errRange
		}
		t.kill(time.Duration(ask.GraceMS) * time.Millisecond)
	}
	return t.answerEnd(s)
}

func (r *Registry) serveOpen(s *wire.Stream, req *wire.Request, client string) error {
	ask := req.Terminal
	if req.Exec == nil || req.Exec.ID == "" || len(req.Exec.ID) > maxNameBytes || req.Exec.Terminal == nil || !viewerName(ask.Viewer) {
		return stream.ErrIncomplete
	}
	o := spec.TerminalOptions{Size: *req.Exec.Terminal, UnsetEnv: ask.UnsetEnv, ScrollbackBytes: ask.ScrollbackBytes}
	if err := o.Validate(); err != nil {
		return err
	}
	o.Size = o.Size.WithDefaults()
	if o.ScrollbackBytes == 0 {
		o.ScrollbackBytes = spec.DefaultScrollbackBytes
	}
	t, err := r.open(req.Exec, o, ask.Viewer, client)
	if err != nil {
		return err
	}
	return stream.Reply(s, &wire.Reply{Terminal: t.info()})
}

// serveList describes one terminal in each reply: an exit can be large.
func (r *Registry) serveList(s *wire.Stream) error {
	for _, t := range r.all() {
		if err := stream.Reply(s, &wire.Reply{Terminal: t.info()}); err != nil {
			return err
		}
	}
	return stream.Reply(s, &wire.Reply{Done: true})
}

// answerEnd describes a terminal once it has ended.
func (t *Terminal) answerEnd(s *wire.Stream) error {
	gone := make(chan struct{})
	go func() { // a host says nothing more: the end of its stream is its leaving
		stream.Discard(s)
		close(gone)
	}()
	select {
	case <-t.done:
		return stream.Reply(s, &wire.Reply{Terminal: t.info()})
	case <-gone:
		return stream.ErrGone
	}
}
