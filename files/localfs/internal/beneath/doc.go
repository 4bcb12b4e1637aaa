// Package beneath opens paths that may not leave a directory: not by their text, not
// by "..", not through a link. Whoever changes the tree meanwhile cannot make one lead
// out: every step is taken from a descriptor, and no check is made of a path that is
// looked up again. An absolute link counts by where it points to. Linux only.
package beneath
