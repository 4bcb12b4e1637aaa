//go:build unix

package gitindex

import (
	"os"
	"syscall"
)

// open opens a file, but not what a link leads to, and does not wait for a pipe.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}
