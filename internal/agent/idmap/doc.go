// Package idmap shows the files of root to another user as that user's own, on disk
// still root's: the verb by which a place runs as nobody over a directory that belongs
// to root.
//
//	mount --map UID:GID --path PATH... -- PROGRAM ARG...
//
// puts an idmapped mount of each path over the path, in a mount namespace of its own in
// which nothing is shared with the one it came from, and becomes the program, under its
// own name (argv[0]) and with the descriptors that it was given. What ends the program
// ends the mounts. It needs root.
//
// On disk 0 is shown as UID, every other id as itself, and UID as nobody's: a file of the
// real UID can be read by all if its mode says so, and not be written or removed. The
// same holds for groups. Mounts below a path are mapped with it; those that cannot be
// stay as they are.
//
//	mount --probe --map UID:GID --path PATH...
//
// does the same on copies of the mounts that nobody sees, and ends.
package idmap
