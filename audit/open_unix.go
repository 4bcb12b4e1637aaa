//go:build unix

package audit

import (
	"io/fs"
	"os"
	"syscall"
)

// noFollow opens no link, and waits for no pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// private reports whether only its owner has any right.
func private(mode fs.FileMode) bool { return mode.Perm()&0o077 == 0 }

// guarded reports whether only its owner can write a file, or put something into a directory.
func guarded(mode fs.FileMode) bool { return mode.Perm()&0o022 == 0 }

// own reports whether a file is ours.
func own(info fs.FileInfo) bool { return int(stat(info).Uid) == os.Geteuid() }

// trusted reports whether a directory is ours, or that of one who can do everything.
func trusted(info fs.FileInfo) bool { return own(info) || stat(info).Uid == 0 }

// names returns how many names a file has.
func names(info fs.FileInfo) uint64 { return uint64(stat(info).Nlink) }

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
