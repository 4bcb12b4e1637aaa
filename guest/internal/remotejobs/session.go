// Package remotejobs is jobs, and what else runs, over the wire: it asks a guest for them, checks what is asked
// for beforehand, and what comes again. The guest lives among untrusted code: every
// record, number and stream that it sends is bounded.
package remotejobs

import (
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Client asks one guest for its jobs. It is safe for concurrent use.
type Client struct {
	s      ask.Session
	denied string // the hint for a command that the wall seems to have refused something
}

// New returns the jobs of the place that s is a session of. denied is the Exit.Hint of one
// that reads as if the place's wall had refused it something.
func New(s ask.Session, denied string) *Client { return &Client{s, denied} }

// hint completes the exit of a job that has ended.
func (c *Client) hint(said *wire.Job, exit *spec.Exit) {
	if said.Exit != nil && said.Exit.Denied {
		exit.Hint = c.denied
	}
}
