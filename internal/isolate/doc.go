// Package isolate turns a policy into the command line of a kernel sandbox:
// bubblewrap (bwrap), 0.8 or later, on Linux. It starts nothing but the probe.
//
// # What guard stops
//
// Writes outside the writable roots. Reads of the hidden paths and of the state
// directory. Any route out where the network is closed. Signals to, and sight of,
// processes outside. Capabilities, new privileges and new user namespaces. The
// sockets in /run, which is empty. Input pushed into the terminal of the person who
// started it.
//
// # What guard does not stop
//
// Reads of everything else that the user can read. Writes in /tmp and /var/tmp, which
// are the machine's own and shared with everybody on it. A connection to a socket that has
// a path outside /run. Where the network is open: a connection to an abstract socket
// of this machine, and to every service that listens on it. Run by root, a read of
// whatever root may read. What a command writes in a writable root and a person or a
// program runs outside later. The use of CPU, memory, processes and disk.
//
// # Mounts
//
// Every mount point exists before it is mounted on, or lies on a file system that ends
// with the sandbox: nothing is left in the work tree. A path that does not exist is
// neither hidden nor protected, and cannot be made outside a writable root.
package isolate
