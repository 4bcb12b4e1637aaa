// Package oom tells which command of a place lost a process because memory ran out. The
// kernel counts such kills - in the memory group of the place, in the one that the place
// shares with others, or in the machine - and only a count that has risen while a
// command ran is evidence: an exit status never is.
//
// The kernel does not say whom it killed. A kill is told once: to the command that ends
// by SIGKILL, or by the status 137 with which a shell reports that of its child; if none
// does, to the one that ended first.
package oom
