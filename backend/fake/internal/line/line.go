// Package line is the line discipline of the fake's terminals: what becomes of a key.
package line

import (
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// Mode is a set of what a terminal does with the bytes that go through it.
type Mode uint8

// What a terminal does, as sets of one.
const (
	Echo           Mode = 1 << iota // what is typed is shown
	Canonical                       // it is edited, and read, by lines
	Signals                         // ^C and ^\ are signals
	CarriageReturn                  // a carriage return that is typed is a newline
	Newline                         // before a newline that is shown comes a carriage return

	Sane = Echo | Canonical | Signals | CarriageReturn | Newline
)

// maxBytes is how much can have been typed and not been read, and how long a line is.
const maxBytes = 4096

// The keys that edit lines, and those that are signals.
const (
	keyInterrupt = 'C' & 0x1f
	keyEnd       = 'D' & 0x1f
	keyBack      = '\b'
	keyKill      = 'U' & 0x1f
	keyStop      = 'Z' & 0x1f
	keyQuit      = '\\' & 0x1f
	keyDelete    = 0x7f
)

// Discipline is what has been typed and not been read. It is not safe for concurrent use.
type Discipline struct {
	mode  Mode
	line  []byte   // that is being edited
	ready [][]byte // what can be read, by lines; an empty one is the end of the input
	held  int      // the bytes of ready
	echo  []byte   // of the present key
}

// New returns a Discipline in mode Sane.
func New() *Discipline { return &Discipline{mode: Sane} }

// Mode is what the terminal does now.
func (d *Discipline) Mode() Mode { return d.mode }

// SetMode says what it does from now on. A line that was begun can be read where lines do
// not count any more.
func (d *Discipline) SetMode(m Mode) {
	if d.mode = m; m&Canonical == 0 && len(d.line) > 0 {
		d.push()
	}
}

// Key takes one byte that is typed. It returns the signal that it means, or 0, and what it
// shows, which is valid until the next one. It is not taken while there is no room for it.
func (d *Discipline) Key(c byte) (sig spec.Signal, echo []byte, taken bool) {
	d.echo = d.echo[:0]
	if c == '\r' && d.mode&CarriageReturn != 0 {
		c = '\n'
	}
	switch {
	case d.mode&Signals != 0 && (c == keyInterrupt || c == keyQuit):
		d.line, d.ready, d.held = nil, nil, 0
		if sig = spec.SIGINT; c == keyQuit {
			sig = spec.SIGQUIT
		}
		d.shown(c)
	case d.mode&Signals != 0 && c == keyStop:
		d.shown(c) // the group of a session's leader is not stopped: nobody could go on with it
	case d.mode&Canonical != 0:
		if !d.edit(c) {
			return 0, nil, false
		}
	case d.held >= maxBytes:
		return 0, nil, false
	default:
		d.line = append(d.line, c)
		d.push()
		d.shown(c)
	}
	if d.mode&Echo == 0 {
		return sig, nil, true
	}
	return sig, d.echo, true
}

// edit takes one byte of a line. Of a line that is too long the rest is dropped.
func (d *Discipline) edit(c byte) (taken bool) {
	full := d.held+len(d.line) >= maxBytes-1
	switch {
	case c == keyBack || c == keyDelete:
		d.erase()
	case c == keyKill:
		for len(d.line) > 0 {
			d.erase()
		}
	case full && len(d.ready) > 0:
		return false
	case c == keyEnd:
		d.push()
	case c == '\n':
		d.line = append(d.line, c)
		d.push()
		d.shown(c)
	case !full:
		d.line = append(d.line, c)
		d.shown(c)
	}
	return true
}

// erase takes back the last character of the line.
func (d *Discipline) erase() {
	const blank = "\b \b"
	last, n := utf8.DecodeLastRune(d.line)
	if n == 0 {
		return
	}
	d.line = d.line[:len(d.line)-n]
	d.echo = append(d.echo, blank...)
	if last < ' ' && last != '\t' { // shown as two
		d.echo = append(d.echo, blank...)
	}
}

// push makes the line ready to be read. What are no lines is read as one.
func (d *Discipline) push() {
	d.held += len(d.line)
	if last := len(d.ready) - 1; d.mode&Canonical == 0 && last >= 0 && len(d.ready[last]) > 0 {
		d.ready[last] = append(d.ready[last], d.line...)
	} else {
		d.ready = append(d.ready, d.line)
	}
	d.line = nil
}

// shown adds a byte to what is shown: a control character by its letter.
func (d *Discipline) shown(c byte) {
	switch {
	case c == '\n' && d.mode&Newline != 0:
		d.echo = append(d.echo, '\r', '\n')
	case c < ' ' && c != '\n' && c != '\t' || c == keyDelete:
		d.echo = append(d.echo, '^', c^0x40)
	default:
		d.echo = append(d.echo, c)
	}
}

// Read reads what is ready: at most a line, and nothing at the end of the input. ok is
// false if nothing is ready.
func (d *Discipline) Read(b []byte) (n int, ok bool) {
	if len(d.ready) == 0 {
		return 0, false
	}
	n = copy(b, d.ready[0])
	if d.ready[0] = d.ready[0][n:]; len(d.ready[0]) == 0 {
		d.ready = d.ready[1:]
	}
	d.held -= n
	return n, true
}
