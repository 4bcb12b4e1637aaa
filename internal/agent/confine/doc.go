// Package confine keeps the commands of a place from what lies outside of it and has no
// wall of its own: unix sockets on which somebody outside listens, and parts of the kernel
// that no command needs. It puts a system call filter on the guest, which every command
// inherits and none can take off, and answers for the calls that a filter alone cannot
// judge. A command needs nothing for it and pays for connect(2) and listen(2) only, and for
// the rare ones of the sections about processes and modes.
//
// # Unix sockets
//
// connect(2) of a command does not happen in the command: the kernel asks the guest,
// which copies the address, takes a duplicate of the caller's socket, decides, and
// connects the duplicate. What was judged is what is connected, whatever other threads
// do meanwhile with the memory, the descriptor or the names. A unix socket is connected
// only if the listener was made by a command of this place: the guest notes each socket
// on which listen(2) is called, by the cookie that the kernel gives it, and asks the
// kernel (sock_diag) at each connection whether it still lives. Nothing is sent to any
// other listener, not even a connection that is closed again: the answer is EACCES. After a
// connection the guest looks at SO_PEERCRED too, and shuts down what leads outside of its
// pid namespace.
//
// The kernel names the inode of a socket by its device and 32 bits of its number. A name on
// a mount that is read-only is nobody's here, since to bind is to write. Where these numbers
// are not unique, no path is connected to, one of the place itself neither: on btrfs and
// bcachefs, xfs above 512 GiB, and file systems of a network or in user space; ext4, tmpfs,
// f2fs, zfs, overlay and smaller xfs are fine. Abstract names work on all. A tmpfs or zfs
// counts up, and has a number twice after 4 billion files.
//
// Sockets with a path and abstract ones, absolute, relative and longer names through
// /proc/self/fd go the same way; so does everything with an open network. Datagram sockets
// of this family name the receiver in each message, which a filter cannot see, so there
// are none: socket(2) and socketpair(2) say EACCES. That ends syslog(3) and sd_notify(3)
// inside; SOCK_STREAM and SOCK_SEQPACKET work, and their pairs. A socket that somebody
// outside has passed in as a descriptor is not looked for.
//
// Other families are connected as asked, without waiting in the guest's threads: a
// caller that would block waits until the socket says so, a signal comes or it dies. A
// connect(2) of the guest that sleeps all the same, because another thread of the caller
// has made the socket a blocking one meanwhile, is interrupted after 2 ms; such a caller gets
// EAGAIN, or EINPROGRESS with a socket that is not a unix one.
//
// Sockets other than unix, internet, netlink and packet ones do not exist
// (EAFNOSUPPORT): those of a hypervisor or a radio are not divided by a network
// namespace.
//
// # What is seen of it
//
// The listener's SO_PEERCRED names the guest, pid 1, as who connected; user and group are
// right. A filter of a command's own works, but not with a listener (EBUSY). A process
// cannot make itself undumpable: PR_SET_DUMPABLE with 0 succeeds and does nothing, or the
// guest could not serve it. A program whose file nobody may read cannot connect: EACCES.
// Rules of Landlock that a command has put on itself do not hold for connect(2): those
// about TCP ports and abstract names are the guest's, which has none.
// At most half of the guest's descriptors are spent on callers that wait, two for each of
// 1,024 at most; who comes then gets EAGAIN. A blocking socket is non-blocking for the moment in which
// the guest begins its connection.
//
// A signal that puts its caller back into the call (SA_RESTART) finds the answer that it
// missed. It is not found where the signal came in the microseconds in which the answer was on
// its way, since the kernel takes the answer then, and drops it, without saying so: a
// connection that was made is EISCONN to that caller. A thread that gets 50,000 signals a second
// meets this once in some thousand connections.
//
// # Processes
//
// The kernel lets a process change all others of its user, the guest among them. prlimit(2)
// sets the limits of its caller only, which may be named by its own number or by that of its
// thread, and of no other process (EPERM); it reads those of all. Priorities, processors and
// schedulers are set for every process but the guest: by setpriority, ioprio_set and the
// calls of sched_set's kind, for one process or for the caller's own group. A whole user's
// and another group's are EPERM.
//
// # Modes
//
// The files of a place may be root's on disk, where a command is somebody else. No command
// makes a file that runs as its owner or its group: chmod(2) and its kind, open(2), creat and
// mknod are refused with EPERM where the mode has the bit of set-user-ID or set-group-ID.
// A directory, on which neither gives rights, gets them: the guest makes that chmod itself,
// on what it has looked at; one that leads through a magic link of /proc is EPERM, but for a
// descriptor of the caller. openat2(2), whose mode a filter cannot see, is ENOSYS, upon which
// libraries use openat. The guest is bound by the same filter, but for what package openat2
// does. A file that has such a bit already loses it when it is written, as everywhere, but
// not when its pages are mapped and changed so.
//
// # What else is refused
//
// With EPERM: new user namespaces by clone and unshare, setns, TIOCSTI and TIOCLINUX, bpf,
// perf_event_open, userfaultfd, the key rings of the kernel, open_by_handle_at, kexec,
// modules and the kernel's log: what container engines refuse by default, less what the
// kernel itself refuses to who has no capability. With ENOSYS: io_uring, through which
// calls pass by any filter; x32; socketcall of 32-bit x86, whose arguments are in memory,
// while its direct calls are treated like all others; and clone3 if Options says so, for
// the same reason, upon which C libraries and runtimes use clone.
//
// # Where the guest cannot answer
//
// Kernels before 5.9, ptrace restricted by Yama to scope 2 or 3, and kernels without
// unix_diag: there unix sockets are refused altogether, but for pairs, and Install says so
// in its notice. A caller that names itself by its number is refused there as all others
// are, and so is a directory with the bit of its group.
package confine
