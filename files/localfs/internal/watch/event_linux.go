package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs/internal/sys"
)

// event is one of the kernel's.
type event struct {
	wd           int32
	mask, cookie uint32 // mask 0: it has been taken already
	name         string // "": it is about the directory itself
}

func (e event) is(mask uint32) bool { return e.mask&mask != 0 }
func (e event) isDir() bool         { return e.is(unix.IN_ISDIR) }

// fill takes what the kernel has told; false: nothing.
func (w *watcher) fill() (bool, error) {
	var more bool
	var err error
	controlErr := w.raw.Control(func(uintptr) { more, err = w.read() })
	return more, errors.Join(controlErr, err)
}

// wait is fill, and waits until there is something, or for as long as most says; 0: for
// ever.
func (w *watcher) wait(most time.Duration) (bool, error) {
	var until time.Time
	if most > 0 {
		until = time.Now().Add(most)
	}
	if err := w.in.SetReadDeadline(until); err != nil {
		return false, err
	}
	if w.ctx.Err() != nil { // asked after the deadline was set, which the end of ctx sets too
		return false, w.ctx.Err()
	}
	var more bool
	var err error
	readErr := w.raw.Read(func(uintptr) bool {
		more, err = w.read()
		return more || err != nil
	})
	if errors.Is(readErr, os.ErrDeadlineExceeded) {
		readErr = nil
	}
	return more, errors.Join(readErr, err)
}

// read takes what the kernel has told, and does not wait.
func (w *watcher) read() (bool, error) {
	n := 0
	err := sys.Retry(func() (err error) {
		n, err = unix.Read(w.fd, w.buf)
		return err
	})
	switch {
	case err == unix.EAGAIN:
		return false, nil
	case err != nil:
		return false, err
	}
	for rest := w.buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
		e := event{
			wd:     int32(binary.NativeEndian.Uint32(rest)),
			mask:   binary.NativeEndian.Uint32(rest[4:]),
			cookie: binary.NativeEndian.Uint32(rest[8:]),
		}
		length := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
		if length > len(rest) {
			break
		}
		name := rest[unix.SizeofInotifyEvent:length]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		e.name = string(name)
		w.events = append(w.events, e)
		rest = rest[length:]
	}
	return true, nil
}

// The kernel tells the two ends of a rename one right after the other, though others may
// be told in between. The second is looked for among so many events, for so long.
const (
	pairEvents = 64
	pairTime   = 10 * time.Millisecond
)

// pair returns where the other end of a rename is among the events that have come; false:
// it lies elsewhere.
func (w *watcher) pair(from event) (int, bool) {
	until := time.Now().Add(pairTime)
	for at := 0; ; {
		for ; at < len(w.events); at++ {
			if e := w.events[at]; e.is(unix.IN_MOVED_TO) && e.cookie == from.cookie {
				return at, true
			}
		}
		left := time.Until(until)
		if at >= pairEvents || left <= 0 || w.ctx.Err() != nil {
			return 0, false
		}
		if more, err := w.wait(left); !more || err != nil {
			return 0, false
		}
	}
}

// exchanged reports whether the rename of a to b, whose second event is at, is half of an
// exchange, and takes the other half.
func (w *watcher) exchanged(a, b event, at int) bool {
	rest := w.events[at+1:]
	rest = rest[:min(len(rest), pairEvents)]
	for i, e := range rest {
		if e.mask == 0 {
			continue
		}
		if e.is(unix.IN_MOVED_FROM) && e.wd == b.wd && e.name == b.name {
			for k, f := range rest[i+1:] {
				if f.is(unix.IN_MOVED_TO) && f.cookie == e.cookie && f.wd == a.wd && f.name == a.name {
					rest[i].mask, rest[i+1+k].mask = 0, 0
					return true
				}
			}
			return false
		}
		if e.wd == b.wd && e.name == b.name || e.wd == a.wd && e.name == a.name {
			return false // something else came of it first
		}
	}
	return false
}
