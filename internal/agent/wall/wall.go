//go:build linux

package wall

import (
	"bytes"

	"github.com/berth-dev/berth/internal/wire"
)

// Wall is the wall of one place. nil is a place without one. It is safe for concurrent
// use.
type Wall struct{ made watch }

// TailBytes is how much of the end of what a command wrote Tell wants.
const TailBytes = 4 << 10

// Tell completes the exit of a command. tail returns the end of what it wrote to
// stderr; it is asked only if the command failed.
func (w *Wall) Tell(e *wire.Exit, tail func() []byte) {
	if w == nil {
		return
	}
	e.HostExecutable = w.made.appeared(false)
	e.Denied = e.Code != 0 && !e.TimedOut && refused(tail())
}

// Unsaid returns what has been made of the files that programs outside run or obey, and that
// no command has told of: all of it. Whatever changes an index has ended by then, so it is
// read once more.
func (w *Wall) Unsaid() []wire.Bytes {
	var out []wire.Bytes
	for again := true; w != nil; again = false {
		some := w.made.appeared(again)
		if len(some) == 0 {
			break
		}
		out = append(out, some...)
	}
	return out
}

// refused reports whether text holds the words of the kernel for EROFS, EACCES or EPERM,
// in the C library's spelling or in that of the languages that have their own.
func refused(text []byte) bool {
	text = bytes.ToLower(text)
	for _, words := range []string{"read-only file system", "permission denied", "operation not permitted"} {
		if bytes.Contains(text, []byte(words)) {
			return true
		}
	}
	return false
}
