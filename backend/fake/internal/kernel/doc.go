// Package kernel is a small operating system in memory: processes that are
// goroutines, signals, groups and sessions, bounded pipes, descriptors, /proc and
// /dev, over a file tree of package memfs.
//
// A process is a Go function that asks its Proc for everything. It ends for everybody
// else at the moment it is killed: its descriptors are closed and its parent is told.
// Its goroutine notices at its next call, which answers ErrKilled. All waits are on
// channels and timers, so that a bubble of testing/synctest sees them as waits.
package kernel
