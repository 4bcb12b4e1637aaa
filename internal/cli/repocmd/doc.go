// Package repocmd holds the verbs of berth for git repositories, worktree add, ls and rm,
// and the flags by which a sandbox works on one: in a work tree of its own, or in a clone.
package repocmd
