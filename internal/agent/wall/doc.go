// Package wall is what a place with a wall has to say of a command when it has ended:
// which of the files that programs outside run or obey have been made, and whether it
// reads as if the wall had refused something.
package wall
