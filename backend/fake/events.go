package fake

import (
	"context"

	"github.com/berth-dev/berth/backend/fake/internal/event"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

var _ driver.Eventer = (*session)(nil)

// Events implements driver.Eventer.
func (s *session) Events(ctx context.Context, q spec.EventQuery, tell func(spec.Event) error) error {
	feed, err := ask(ctx, s, Request{Op: OpPlaceEvents}, func() (*event.Feed, error) {
		if q.After < 0 {
			return nil, spec.New(spec.CodeInvalid, "an event has no negative number")
		}
		s.p.mu.Lock()
		defer s.p.mu.Unlock()
		return s.p.feed, nil
	})
	if err != nil {
		return err
	}
	life, end := s.life(ctx)
	defer end(nil)
	if err = feed.Tell(life, q, tell); err != nil && err == life.Err() {
		return context.Cause(life)
	}
	return err
}

// Tell records what the session causes.
func (s *session) Tell(e spec.Event) {
	e.Client = s.client
	s.p.tell(e)
}

// tell records what happens to the place.
func (p *place) tell(e spec.Event) {
	p.mu.Lock()
	feed := p.feed
	p.mu.Unlock()
	feed.Record(e)
}

// tell records what happens to a command that has started: e, with what names it.
func (c *command) tell(kind, ofJob spec.EventKind, e spec.Event) {
	e.Kind, e.Client = kind, c.client
	switch {
	case c.job != nil:
		e.Kind = ofJob
	case c.terminal != nil && kind == spec.EventCommandBegun:
		e.Kind = spec.EventTerminalBegun
	case c.terminal != nil:
		e.Kind = spec.EventTerminalEnded
	}
	c.named(e)
}

// named records e with what names the command.
func (c *command) named(e spec.Event) {
	e.ID, e.Key = c.id, c.spec.Key
	if c.job != nil {
		e.ID, e.Owner, e.Key = c.p.jobs.Names(c.job)
	}
	c.p.tell(e)
}

// killing records that the command is about to be ended, unless it has ended by itself.
func (c *command) killing(reason, client string) {
	select {
	case <-c.finished:
	default:
		c.named(spec.Event{Kind: spec.EventKilled, Client: client, Reason: reason})
	}
}
