//go:build linux

package stream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A command that writes without a pause is let write some more before it is read
// again: a reader that is quicker than its writer wakes for each of its small writes,
// and so does everything behind it.
const (
	flowGap   = time.Millisecond       // a pause of the writer that ends the flow
	flowBytes = 256 << 10              // after so much without a pause
	flowRest  = 200 * time.Microsecond // for so long
	flowPipe  = 256 << 10              // into a pipe of this size
)

// flow is how a pipe has been read of late.
type flow struct {
	last time.Time
	run  int  // bytes without a pause
	wide bool // the pipe has been made larger, or cannot be
}

// ease is called after a read of n bytes.
func (f *flow) ease(pipe syscall.RawConn, n int) {
	now := time.Now()
	if now.Sub(f.last) > flowGap {
		f.run = 0
	}
	f.last = now
	f.run += n
	if n == ChunkBytes || f.run < flowBytes {
		return
	}
	if !f.wide {
		f.wide = true
		_ = pipe.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, flowPipe) })
	}
	time.Sleep(flowRest)
	f.last = time.Now()
}
