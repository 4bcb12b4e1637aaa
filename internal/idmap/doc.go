// Package idmap shows the files of root to another user as that user's own, on disk
// still root's: so a place runs as nobody over a directory that belongs to root.
//
// An idmapped mount of each path lies over the path, in a mount namespace which is that
// of one thread and of what it starts. What is in it when the last of these has ended is
// gone with it; this program, its other threads and the machine never see it. It needs
// root.
//
// On disk 0 is shown as the user, every other id as itself, and the user's own as
// nobody's: a file of the real user can be read by all if its mode says so, and not be
// written or removed. The same holds for groups. Mounts below a path are mapped with it;
// those that cannot be stay as they are.
package idmap
