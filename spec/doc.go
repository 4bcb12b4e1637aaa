// Package spec holds the data of Berth: what a place is asked to be (Spec),
// what a command is asked to do (Command), what became of it (Exit), what a
// place can do (Caps) and how things fail (Error, Code).
//
// It is the bottom of the module. It imports the standard library only and
// performs no I/O, so that a backend author, a server and a user share one
// vocabulary without sharing anything else.
//
// # Units
//
// Durations are time.Duration and sizes are int64 bytes. Where a value is
// written as JSON the unit is in the name: timeout_ms, memory_bytes.
//
// # Errors
//
// Every error that Berth returns is a *Error with one Code, or io.EOF, or the
// error of the caller's context. errors.Is sees both the code's sentinel
// (ErrNotFound and its siblings) and the cause. A command that ran and ended
// badly - a non-zero exit, a timeout, a death by signal - is never an error: it
// is an Exit.
//
// # Concurrency
//
// All types are plain values; none is safe for concurrent mutation.
package spec
