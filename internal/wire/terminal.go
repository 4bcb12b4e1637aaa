package wire

import (
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The operations on terminals, since 1.3.
const (
	OpTerminalOpen   Op = "terminal_open"   // with Exec: reply{terminal}; it may be repeated with the same Exec.ID
	OpTerminalView   Op = "terminal_view"   // events and data frames from the guest, acknowledgements from the host
	OpTerminalType   Op = "terminal_type"   // data frames and an end from the host, then reply{offset}
	OpTerminalResize Op = "terminal_resize" // reply
	OpTerminalList   Op = "terminal_list"   // reply{terminal} for each, then one that has Done
	OpTerminalWait   Op = "terminal_wait"   // reply{terminal} once it has ended
	OpTerminalKill   Op = "terminal_kill"   // the same
)

// TerminalRequest is the part that all operations on terminals have; which of its fields
// are used depends on the operation.
type TerminalRequest struct {
	ID string `json:"id,omitempty"`
	// Request is, of a kill, the Exec.ID of the opening, in place of ID. An opening with it
	// that comes later is refused.
	Request string `json:"request,omitempty"`

	UnsetEnv        []string           `json:"unset_env,omitempty"` // open; the size is in Exec
	ScrollbackBytes int                `json:"scrollback_bytes,omitempty"`
	Size            *spec.TerminalSize `json:"size,omitempty"`     // resize
	GraceMS         int64              `json:"grace_ms,omitempty"` // kill

	// Viewer is chosen by the host for one view, at the opening of a terminal for its first
	// one; the guest knows it for as long as the
	// view is attached and for the resume window.
	Viewer string `json:"viewer,omitempty"`
	// Offset is, of a view that goes on, the byte of output that is wanted next; of what
	// is typed, how much this viewer has typed before, or negative: only what was taken
	// is asked for. What the guest has already is not typed again.
	Offset int64 `json:"offset,omitempty"`
	Resume bool  `json:"resume,omitempty"` // the view goes on
	Live   bool  `json:"live,omitempty"`   // and knows that the replay is over
}

// Terminal is spec.Terminal on the wire.
type Terminal struct {
	ID              string            `json:"id"`
	Name            Bytes             `json:"name"`
	PID             int               `json:"pid"`
	Size            spec.TerminalSize `json:"size"`
	Viewers         int               `json:"viewers"`
	StartedUnixNS   int64             `json:"started_unix_ns"`
	EndedUnixNS     int64             `json:"ended_unix_ns,omitempty"`
	Exit            *Exit             `json:"exit,omitempty"`
	OutputBytes     int64             `json:"output_bytes"`
	ScrollbackBytes int64             `json:"scrollback_bytes"`
}

// TerminalID is the id of a place's nth terminal.
func TerminalID(n int64) string { return terminalPrefix + strconv.FormatInt(n, 10) }

const terminalPrefix = "term-"

// IsTerminalID reports whether id can be that of a terminal.
func IsTerminalID(id string) bool {
	digits, ok := strings.CutPrefix(id, terminalPrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	return ok && err == nil && n > 0 && TerminalID(n) == id
}

// Spec checks and converts what a guest said: a record that contradicts itself is
// refused whole.
func (t *Terminal) Spec() (spec.Terminal, error) {
	if !IsTerminalID(t.ID) || len(t.Name) > maxNameBytes || t.PID <= 0 || t.PID > math.MaxInt32 || !fits(t.Size) || t.Viewers < 0 ||
		min(t.StartedUnixNS, t.EndedUnixNS, t.OutputBytes, t.ScrollbackBytes) < 0 || t.ScrollbackBytes > min(t.OutputBytes, spec.MaxScrollbackBytes) ||
		(t.Exit == nil) != (t.EndedUnixNS == 0) {
		return spec.Terminal{}, violation("record of terminal %.64q out of range", t.ID)
	}
	out := spec.Terminal{
		ID: t.ID, Name: string(t.Name), PID: t.PID, Size: t.Size, Viewers: t.Viewers, Started: time.Unix(0, t.StartedUnixNS),
		OutputBytes: t.OutputBytes, ScrollbackBytes: t.ScrollbackBytes,
	}
	if t.Exit != nil {
		exit, err := t.Exit.Spec()
		if err != nil {
			return spec.Terminal{}, err
		}
		// No earlier than its start, though the place's clock was set back.
		out.Exit, out.Ended = exit, time.Unix(0, max(t.EndedUnixNS, t.StartedUnixNS))
	}
	return out, nil
}

func fits(s spec.TerminalSize) bool { return s.Cols > 0 && s.Rows > 0 && s.Validate() == nil }

// TerminalEvent is what the guest says between the output of a view. The first one of
// each view has At and Size. After an End the terminal has ended and all was told.
type TerminalEvent struct {
	// At is the offset in the output of the byte that comes next.
	At   int64              `json:"at"`
	Size *spec.TerminalSize `json:"size,omitempty"`
	// Skipped is how many bytes before At are not kept any more.
	Skipped int64 `json:"skipped,omitempty"`
	// Restore is what brings a viewer's terminal into the state that the output at At
	// is for. It is no part of the output.
	Restore Bytes  `json:"restore,omitempty"`
	Live    bool   `json:"live,omitempty"`
	Err     *Error `json:"err,omitempty"` // the last one
}

const (
	maxTerminalEventBytes = 16 << 10
	maxRestoreBytes       = 1 << 10
)

// Check refuses an event that cannot be meant.
func (e *TerminalEvent) Check() error {
	if min(e.At, e.Skipped) < 0 || e.Skipped > e.At || len(e.Restore) > maxRestoreBytes || e.Size != nil && !fits(*e.Size) {
		return violation("event of a terminal out of range")
	}
	return nil
}

// TerminalAck says how far the host has taken the output of a view.
type TerminalAck struct {
	Seen int64 `json:"seen"`
}

// ReadTerminal reads what comes next in a view: an event, or output, which is put into
// buf where that is large enough. It returns io.EOF only after an end.
func ReadTerminal(r io.Reader, buf []byte) (*TerminalEvent, []byte, error) {
	kind, n, err := readHeader(r)
	switch {
	case err == io.EOF:
		return nil, nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, nil, err
	case kind == FrameEnd:
		return nil, nil, io.EOF
	case kind == FrameJSON:
		e := new(TerminalEvent)
		err := readJSON(r, e, n, maxTerminalEventBytes)
		switch {
		case err != nil:
		case e.Err != nil:
			err = e.Err.Spec()
		default:
			err = e.Check()
		}
		return e, nil, err
	}
	buf = slices.Grow(buf[:0], n)[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, nil, io.ErrUnexpectedEOF
	}
	return nil, buf, nil
}
