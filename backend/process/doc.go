// Package process makes places of this machine's own processes: a command runs as the
// user who asks, on the user's own files.
//
// # Levels
//
// none is no wall: an ordinary process of the user. guard, the default, is a kernel
// sandbox (bubblewrap) round the guest and everything it starts: all can be read but
// the hidden paths - the credentials that programs keep in a home directory, our own
// state, Spec.HiddenPaths -, and only the workdir, the temporary directories,
// Spec.WritableRoots and the repository of a linked worktree can be written. Where guard
// cannot be built, Provision fails; nothing ever runs at a lower level than was asked
// for. What guard does not stop is said in package internal/isolate. A place whose wall
// has got a hole, because a program outside has replaced what it hides, is not connected
// to any more (CodeUnsupported): end it and make it again.
//
// # Network
//
// Closed by default in guard; at level none it is open and cannot be closed.
//
// # Workdir
//
// The spec's, which must exist (CodeInvalidPath) and is never removed; without one, a
// fresh directory that ends with the place. It is resolved, so that a path through a
// symbolic link and the directory itself name the same place.
//
// # Files
//
// The guest serves what its user may use, behind guard what the wall lets through.
// Spec.WorkspaceRoot, which must exist (CodeInvalidPath), confines the file API at both
// levels; commands are not confined by it.
//
// # Life
//
// A guest outlives the program that started it, in a session of its own. A stopped place
// keeps its directory; Provision starts it again. Package guest is the whole of Session
// and Process, so that this package has a Driver only.
package process
