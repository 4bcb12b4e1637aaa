package driver

import (
	"context"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Terminaler is a Session whose place has terminals: programs on a pseudo-terminal, for
// people. They belong to the place and not to a client: one that nobody looks at runs on.
//
// A terminal is never replaced by anything outside of its place.
type Terminaler interface {
	// OpenTerminal starts what o asks for on a new terminal, with a viewer attached. A
	// request whose answer was lost is repeated without a second terminal. ctx bounds the
	// call; it ends neither the terminal nor its viewer.
	OpenTerminal(ctx context.Context, o spec.TerminalOptions) (Terminal, error)
	// AttachTerminal adds a viewer to a terminal, who is told first of what is kept of
	// its output. One that has ended is replayed too, while its record is kept; one that
	// is unknown is CodeNotFound.
	AttachTerminal(ctx context.Context, id string) (Terminal, error)
	// Terminals lists the place's terminals, the oldest first, the ended ones too.
	Terminals(ctx context.Context) ([]spec.Terminal, error)
	// KillTerminal ends the whole tree of a terminal, with HUP and TERM first and KILL
	// after grace (0: spec.DefaultGrace; negative: at once), and returns its record once
	// it has ended. One that has ended is no error.
	KillTerminal(ctx context.Context, id string, grace time.Duration) (spec.Terminal, error)
}

// Terminal is one viewer of a terminal. Next is called from one goroutine at a time; the
// other methods are safe for concurrent use, also beside it. A lost connection is dialled
// again and nothing is told or typed twice; where that fails within the resume window each
// method answers CodeUnavailable, and the terminal runs on.
type Terminal interface {
	// ID is the terminal's in its place.
	ID() string
	// Next waits for the next event. After the last byte of a terminal that has ended it
	// is io.EOF, after Detach CodeInvalid.
	//
	// The output is paced by its fastest viewer: it waits while no viewer keeps up, runs
	// on where there is none, and one that has fallen behind by more than the scrollback
	// is told how much it has missed.
	Next(ctx context.Context) (spec.TerminalEvent, error)
	// Write types p. It returns once the place has taken it: a program that reads nothing
	// makes it wait. What is typed into a terminal that has ended is dropped.
	Write(ctx context.Context, p []byte) error
	// Resize sets the size for the program and all viewers. Of a terminal that has ended
	// it does nothing. To set the present size has the program told, so that it redraws.
	Resize(ctx context.Context, size spec.TerminalSize) error
	// Wait returns what became of the program. ctx bounds the waiting only.
	Wait(ctx context.Context) (spec.Exit, error)
	// Detach ends this view; the terminal runs on. It is idempotent.
	Detach()
}
