// Package shell is /bin/sh of the places of backend/fake: the POSIX shell as dash has
// it, over the processes of package kernel. The grammar and the expansions are those
// of mvdan.cc/sh; what runs, where and with which descriptors is said here.
//
// A subshell, a part of a pipeline, a substitution and a background command are
// processes of their own; traps run when signals come; $$ and $! are pids. There is
// no job control (fg, bg) and no alias; a script is read as a whole before it runs, unless
// it is typed on a terminal, and two separators of IFS side by side that are no blanks hold
// no empty field.
package shell
