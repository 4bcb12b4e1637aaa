// Package wall is what a guest does for the wall round its place. Before it serves it looks
// whether the wall is as it was planned, becomes an ordinary user, and takes the environment
// of commands. When a command has ended it says which of the files that programs outside run
// or obey have been made, and whether the command reads as if the wall had refused something.
//
// Of those files an index of git is one that commands have to write. It is told of when one
// has left it so that git outside, which verifies nothing that it finds there, would write
// other files than those of the work tree, or so that not all its names can be known; and a
// repository is, to which a new entry of an index leads, for git outside looks into it and
// does what its configuration says.
package wall
