// Package starter starts programs from a thread that has a descriptor table of its own, in
// which next to nothing is.
//
// A fork copies the table of the thread that it is made on, and an exec closes each
// descriptor of the copy: for a guest that holds two of each of a thousand jobs, that is an
// eighth of the time of a command. Nor can a descriptor that another thread has opened
// meanwhile reach a child.
//
// The other thread has to be woken, and the descriptors of the program to be sent to it,
// which costs about what a few hundred descriptors do: it is for crowds. Linux only.
package starter
