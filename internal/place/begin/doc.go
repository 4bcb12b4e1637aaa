// Package begin is with what a process on this side of a wall is started: its environment,
// its descriptors, and the thread that it is started from.
package begin
