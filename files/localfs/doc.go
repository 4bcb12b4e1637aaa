// Package localfs is files.FS over the operating system's own files: what a guest
// serves of the place that it lives in.
//
// The place is the boundary; NewRooted confines names to one directory of it.
// Whoever lives in the place may change it at any moment, so no decision rests on a
// path that is looked up twice: the directory of a name is resolved once to a
// descriptor and everything else happens relative to that. Linux only; elsewhere
// every method answers CodeUnsupported.
//
// # Writing
//
// Write puts the bytes into a file ".berth-write-<16 hex>" beside the target and
// renames it over the target. It is removed again when the write fails; one that a
// crash leaves behind is an ordinary file, which List shows and Remove removes.
// Directories that Write made stay when it then fails: another write may use them
// already. A file that is replaced keeps its permission bits, not its owner. The
// temporary files of a batch share one such name and end with "-" and their number.
//
// # Removing
//
// A recursive Remove works with descriptors, follows no link and enters no mount
// point (CodeNotReplaceable). It stops at the first error and leaves the rest.
//
// # Kernel files
//
// A file whose size the kernel does not know before it is read (in /proc and /sys)
// is read by Open, up to 4 MiB, and has the size that it turns out to have.
package localfs
