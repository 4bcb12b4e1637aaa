// Package reexec holds one fact about the running program: whether it becomes a
// guest when it is executed again with Arg as its first argument.
package reexec

import "sync/atomic"

// Arg is the first argument of a program that is to be a guest.
const Arg = "berth-guest-reexec"

// possible is state of the process because the fact is one: what the program's main
// does with Arg cannot be asked of anything smaller, and does not change.
var possible atomic.Bool

// Note records that the program's main hands over to the guest when it is given Arg.
func Note() { possible.Store(true) }

// Possible reports whether Note has been called.
func Possible() bool { return possible.Load() }
