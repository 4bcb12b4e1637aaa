//go:build unix

package image

import "syscall"

// openFlags keep an open from waiting for the other end of a FIFO that has taken the
// place of a file.
const openFlags = syscall.O_NONBLOCK
