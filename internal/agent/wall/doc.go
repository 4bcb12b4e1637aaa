// Package wall is what a guest does for the wall round its place. Before it serves it looks
// whether the wall is as it was planned, becomes an ordinary user, and takes the environment
// of commands. When a command has ended it says which of the files that programs outside run
// or obey have been made, and whether the command reads as if the wall had refused something.
package wall
