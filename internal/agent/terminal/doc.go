// Package terminal is the terminals of a place: their scrollback, their viewers, what is
// typed into them and their records. The program of each is a command like others, started
// by whoever uses this package, with the far end of a pseudo-terminal as its streams.
//
// A terminal belongs to the place. A viewer that is slow misses output rather than hold up
// those that are not; only when none keeps up does the program wait.
package terminal
