//go:build unix

package audit

import (
	"io/fs"
	"syscall"
)

// noFollow opens no link, and waits for no pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// private reports whether only its owner has any right.
func private(mode fs.FileMode) bool { return mode.Perm()&0o077 == 0 }

// guarded reports whether only its owner can put something into a directory.
func guarded(mode fs.FileMode) bool { return mode.Perm()&0o022 == 0 }
