// Package process makes places of this machine's own processes: a command runs as the
// user who asks, on the user's own files.
//
// # Levels
//
// none is no wall: an ordinary process of the user. guard, the default, is a kernel
// sandbox (bubblewrap) round the guest and everything it starts: all can be read but
// the hidden paths - the credentials that programs keep in a home directory, the homes of
// others, our own state, Spec.HiddenPaths -, and only the workdir, the temporary
// directories, Spec.WritableRoots and the repository of a linked worktree can be written,
// without what programs outside obey in them, such as the hooks of a repository. In a jail
// only the directories of the system exist and what guard lets commands write, with empty
// directories for what is temporary and for the home directory. Where a wall cannot be
// built, Provision fails; nothing ever runs at a lower level than was asked for. What each
// of them does not stop is said in package internal/isolate. A place whose wall has got a
// hole, because a program outside has replaced what it hides, is not connected to any more
// (CodeUnsupported): end it and make it again.
//
// Behind a wall, root's commands run as the owner of the workdir, or as nobody where that is
// root; the files of the workdir stay root's. Where the machine cannot do that they run as
// root, and Status.Notice says so.
//
// # Network
//
// Closed by default behind a wall; at level none it is open and cannot be closed.
//
// # Workdir
//
// The spec's, which must exist (CodeInvalidPath) and is never removed; without one, a
// fresh directory that ends with the place. It is resolved, so that a path through a
// symbolic link and the directory itself name the same place.
//
// # Files
//
// The guest serves what its user may use, behind a wall what that lets through.
// Spec.WorkspaceRoot, which must exist (CodeInvalidPath), confines the file API at every
// level; commands are not confined by it.
//
// # Limits
//
// Spec.Limits are enforced by a control group (package internal/cgroup) that holds the
// guest, its wrapper and every command from the first instruction on, and is removed with
// the place; Probe says where none can be made, and why. Where systemd runs the machine with
// cgroup v2 that is a scope of its, for an ordinary user one of the user manager, with which
// the place ends: when a user who does not linger has logged out. The guest's own threads count:
// some 24 processes of Limits.PIDs and some 16 MiB of Limits.MemoryBytes are its. At level
// none a command of root can lift its limits; behind a wall the groups are read-only. A
// command that the kernel killed for want of memory has that in Exit.OOM.
//
// # Life
//
// A guest outlives the program that started it, in a session of its own. A stopped place
// keeps its directory; Provision starts it again. Package guest is the whole of Session
// and Process, so that this package has a Driver only.
package process
