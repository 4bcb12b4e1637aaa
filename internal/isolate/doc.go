// Package isolate turns a policy into the command line of a kernel sandbox:
// bubblewrap (bwrap), 0.8 or later, on Linux. It starts nothing but the probe.
//
// # What guard stops
//
// Writes outside the writable roots. Reads of the hidden paths and of the state
// directory. Any route out where the network is closed. Signals to, and sight of,
// processes outside. Capabilities, new privileges and new user namespaces. The
// settings of the kernel in /proc, by root too. The sockets in /run, which is empty, those
// that the environment names, and those of terminal multiplexers and window systems in
// /tmp. Input pushed into the terminal of the person who started it. What is mounted on
// this machine later, where this user may make a mount namespace.
//
// Nothing that a command does in a writable root makes the next sandbox another one: the
// directories on the way to what is hidden, protected or writable cannot be moved or
// removed, and a path is refused that leads to such a thing by a symbolic link which a
// command can replace. Of the repository of a linked worktree, hooks and configuration
// that exist are read-only.
//
// # What guard does not stop
//
// Reads of everything else that the user can read. Writes in /tmp and /var/tmp, which
// are the machine's own and shared with everybody on it. A connection to any other socket
// that has a path outside /run. Where the network is open: a connection to an abstract socket
// of this machine, and to every service that listens on it. Run by root, a read of
// whatever root may read. What a command writes in a writable root and a person or a
// program runs outside later: hooks that a repository did not have included. The use of
// CPU, memory, processes and disk.
//
// A mount covers a file or directory, not a name. When a program outside replaces what is
// hidden or protected - by a rename, as editors, shells and logins do - the kernel takes
// the cover away in every sandbox that runs, and what runs in it then sees the new one. A
// directory that is hidden whole has no such gap for what is in it. Wall.Sealed lists the
// covers: who connects to a sandbox looks first whether all are there, and does not if one
// is gone. Until then, and for what is already running, the gap is open. What did not
// exist when the sandbox started is not hidden in it.
//
// # Mounts
//
// Every mount point exists before it is mounted on, or lies on a file system that ends
// with the sandbox: nothing is left in the work tree. A path that does not exist is
// neither hidden nor protected, and cannot be made outside a writable root.
package isolate
