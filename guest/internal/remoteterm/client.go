// Package remoteterm is terminals over the wire: it asks a guest for them and keeps views of
// them over lost connections. The guest lives among untrusted code: every record, number and
// frame that it sends is bounded, and what it says of one view has to fit together.
package remoteterm

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Client asks one guest for its terminals. It is safe for concurrent use.
type Client struct {
	s      ask.Session
	alive  context.Context // ends with the session
	denied string          // the hint for a program that the wall seems to have refused something
}

// New returns the terminals of the place that s is a session of, for as long as alive.
func New(s ask.Session, alive context.Context, denied string) *Client {
	return &Client{s, alive, denied}
}

// undoLimit bounds how long a terminal is tried to be ended whose opening was given up.
const undoLimit = 10 * time.Second

// Open opens a terminal as o and req, its command, have it. name is a new one for its
// viewer. An answer that is lost is asked for again by the request's id. Where ctx ends, or
// the terminal cannot be viewed, it is ended, or not begun, soon after.
func (c *Client) Open(ctx context.Context, req *wire.Request, o spec.TerminalOptions, name string) (driver.Terminal, error) {
	size := o.Size.WithDefaults()
	req.Op, req.Exec.Terminal = wire.OpTerminalOpen, &size
	req.Terminal = &wire.TerminalRequest{UnsetEnv: o.UnsetEnv, ScrollbackBytes: o.ScrollbackBytes, Viewer: name}
	t, err := c.one(ctx, req, "", false)
	var v driver.Terminal
	if err == nil {
		v, err = c.attach(ctx, t.ID, name)
	}
	if err != nil && (t.ID != "" || ctx.Err() != nil) {
		go c.undo(req.Exec.ID)
	}
	return v, err
}

// undo ends the terminal that a request has opened, or is about to, which nobody has the id
// of. A session that ends meanwhile leaves it to the place.
func (c *Client) undo(request string) {
	ctx, cancel := context.WithTimeout(c.alive, undoLimit)
	defer cancel()
	ms := (&spec.Command{}).GraceOrDefault().Milliseconds()
	_, _ = c.one(ctx, &wire.Request{Op: wire.OpTerminalKill, Terminal: &wire.TerminalRequest{Request: request, GraceMS: ms}}, "", true)
}

// Attach adds a viewer to a terminal, with a new name.
func (c *Client) Attach(ctx context.Context, id, name string) (driver.Terminal, error) {
	if !wire.IsTerminalID(id) {
		return nil, errUnknown
	}
	return c.attach(ctx, id, name)
}

var errUnknown = spec.New(spec.CodeNotFound, "no such terminal")

// maxListed bounds a list: more than a place keeps.
const maxListed = spec.MaxTerminals + spec.MaxEndedTerminals

// List lists the terminals of the place.
func (c *Client) List(ctx context.Context) ([]spec.Terminal, error) {
	list, err := c.listOnce(ctx)
	if c.s.Repeatable(err) {
		list, err = c.listOnce(ctx)
	}
	return list, err
}

func (c *Client) listOnce(ctx context.Context) ([]spec.Terminal, error) {
	st, err := c.s.Open(ctx, &wire.Request{Op: wire.OpTerminalList, Terminal: &wire.TerminalRequest{}}, ask.Reads)
	if err != nil {
		return nil, err
	}
	defer st.End()
	var list []spec.Terminal
	had := map[string]bool{}
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return nil, st.Failed(ctx, err, ask.Reads)
		}
		if reply.Done {
			return list, nil
		}
		t, err := c.record(reply.Terminal)
		if err != nil {
			return nil, err
		}
		if had[t.ID] || len(list) == maxListed {
			return nil, ask.Violation("a list of more than %d terminals, or with one twice", maxListed)
		}
		had[t.ID] = true
		list = append(list, t)
	}
}

// Kill ends the tree of a terminal and returns its record once it has ended. It goes on
// over a redial.
func (c *Client) Kill(ctx context.Context, id string, grace time.Duration) (spec.Terminal, error) {
	if !wire.IsTerminalID(id) {
		return spec.Terminal{}, errUnknown
	}
	grace = (&spec.Command{Grace: grace}).GraceOrDefault()
	if grace > spec.MaxTimeout {
		return spec.Terminal{}, spec.New(spec.CodeInvalid, fmt.Sprintf("grace %v: want at most %v", grace, spec.MaxTimeout))
	}
	ms := int64((grace + time.Millisecond - 1) / time.Millisecond)
	return c.one(ctx, &wire.Request{Op: wire.OpTerminalKill, Terminal: &wire.TerminalRequest{ID: id, GraceMS: ms}}, id, true)
}

// one makes a request that is answered by the record of one terminal, over as many
// connections as it takes. id is what it must be; "": any. ended: it has to have ended.
func (c *Client) one(ctx context.Context, req *wire.Request, id string, ended bool) (spec.Terminal, error) {
	var t spec.Terminal
	err := c.s.Patiently(ctx, req, ask.Changes, func(st ask.Stream) (bool, error) {
		defer st.End()
		reply, err := wire.ReadReply(st)
		if err != nil {
			return false, err
		}
		t, err = c.record(reply.Terminal)
		if err == nil && (id != "" && t.ID != id || ended && t.Running()) {
			err = ask.Violation("%s answers with %s, which runs: %v", req.Op, t.ID, t.Running())
		}
		return true, err
	})
	return t, err
}

// record takes what can be true of a terminal's record.
func (c *Client) record(said *wire.Terminal) (spec.Terminal, error) {
	if said == nil {
		return spec.Terminal{}, ask.Violation("a reply without the terminal's record")
	}
	t, err := said.Spec()
	if err != nil {
		return spec.Terminal{}, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	if said.Exit != nil && said.Exit.Denied {
		t.Exit.Hint = c.denied
	}
	for i, s := range t.Exit.Survivors {
		const most = 64 // a kernel's names have 15 bytes
		t.Exit.Survivors[i].Name = s.Name[:min(len(s.Name), most)]
	}
	return t, nil
}
