package spec

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// The bounds of a terminal.
const (
	// MaxTerminalSide is the most columns or rows.
	MaxTerminalSide = 4096
	// DefaultScrollbackBytes is what a terminal keeps of its output for replay: 1 MiB.
	DefaultScrollbackBytes = 1 << 20
	// MaxScrollbackBytes is the most that TerminalOptions.ScrollbackBytes can be.
	MaxScrollbackBytes = 16 << 20
)

// TerminalSize is the size of a terminal, in characters. The zero value is 80 by 24.
type TerminalSize struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// WithDefaults returns s with 80 for no columns and 24 for no rows.
func (s TerminalSize) WithDefaults() TerminalSize {
	if s.Cols == 0 {
		s.Cols = 80
	}
	if s.Rows == 0 {
		s.Rows = 24
	}
	return s
}

// Validate refuses a side below 1 (0 in both is the default) or over MaxTerminalSide.
func (s TerminalSize) Validate() error {
	for _, side := range []int{s.Cols, s.Rows} {
		if side < 0 || side > MaxTerminalSide {
			return New(CodeInvalid, fmt.Sprintf("a terminal of %d by %d: each side has 1 to %d characters", s.Cols, s.Rows, MaxTerminalSide))
		}
	}
	return nil
}

// TerminalOptions say what a terminal runs. The zero value is a login shell of the
// place's user in the workdir, 80 by 24.
type TerminalOptions struct {
	Size TerminalSize
	// Args is what runs in the terminal; empty: the login shell of the user, which is
	// what the place's user database names, else /bin/sh, with "-" before its name. A
	// place without a shell refuses an empty one with CodeStartFailed.
	Args []string
	Dir  string // as in Command
	// Env is added to the place's environment. UnsetEnv are names that the place has and
	// the terminal does not. TERM is xterm-256color unless Env has it.
	Env      map[string]string
	UnsetEnv []string
	User     string // as in Command
	// ScrollbackBytes is how much of the output is kept for replay; 0:
	// DefaultScrollbackBytes.
	ScrollbackBytes int
}

// Clone returns a deep copy.
func (o TerminalOptions) Clone() TerminalOptions {
	o.Args, o.UnsetEnv, o.Env = slices.Clone(o.Args), slices.Clone(o.UnsetEnv), maps.Clone(o.Env)
	return o
}

// Validate refuses what no place can do.
func (o TerminalOptions) Validate() error {
	if err := o.Size.Validate(); err != nil {
		return err
	}
	if o.ScrollbackBytes < 0 || o.ScrollbackBytes > MaxScrollbackBytes {
		return New(CodeInvalid, fmt.Sprintf("a scrollback of %d bytes: at most %d are kept", o.ScrollbackBytes, MaxScrollbackBytes))
	}
	for _, name := range o.UnsetEnv {
		if !envName(name) {
			return New(CodeInvalid, fmt.Sprintf("env name %q: it must match [A-Za-z_][A-Za-z0-9_]*", clip(name)))
		}
	}
	c := Command{Args: o.Args, Dir: o.Dir, Env: o.Env, User: o.User}
	if len(c.Args) == 0 {
		c.Args = []string{"sh"}
	}
	return c.Validate()
}

// Terminal describes one terminal of a place. The record stays after the end until the
// place has MaxEndedTerminals younger ones.
type Terminal struct {
	ID   string       `json:"id"` // "term-1", "term-2", ...: unique in the place, never used again
	Name string       `json:"name"`
	PID  int          `json:"pid"` // the leader's, as seen inside the place
	Size TerminalSize `json:"size"`
	// Viewers is how many are attached now.
	Viewers int       `json:"viewers"`
	Started time.Time `json:"started"` // by the place's clock
	Ended   time.Time `json:"ended,omitzero"`
	// Exit is valid once Ended is set.
	Exit Exit `json:"exit,omitzero"`
	// OutputBytes is how much it has written in all, ScrollbackBytes how much of its end
	// is kept.
	OutputBytes     int64 `json:"output_bytes"`
	ScrollbackBytes int64 `json:"scrollback_bytes"`
}

// The bounds on the terminals of a place: more running ones are refused with
// CodeUnavailable.
const (
	MaxTerminals      = 64
	MaxEndedTerminals = 64
)

// Running reports whether the terminal has not ended.
func (t Terminal) Running() bool { return t.Ended.IsZero() }

// TerminalEvent is what a viewer is told next: exactly one of Data, Size, Skipped and
// Live is set.
type TerminalEvent struct {
	// Data is output. It is valid until the next event is asked for.
	Data []byte
	// Size is the size from here on: it comes first, and whenever somebody has resized the
	// terminal, at that point of the output.
	Size TerminalSize
	// Skipped is how many bytes of output follow here and are not kept any more.
	Skipped int64
	// Live: what was kept has been replayed; what follows is new.
	Live bool
}
