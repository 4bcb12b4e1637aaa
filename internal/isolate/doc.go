// Package isolate turns a policy into the command line of a kernel sandbox:
// bubblewrap (bwrap), 0.8 or later, on Linux. It starts nothing but the probe. Seatbelt
// writes the profile that is to say the same on macOS.
//
// # What guard stops
//
// Writes outside the writable roots. Reads of the hidden paths, of the state directory and
// of the homes of others, which are empty but for what is writable in them. Any route out
// where the network is closed. Signals to, and sight of, processes outside. Capabilities,
// new privileges and new user namespaces. The settings of the kernel in /proc, by root too.
// The sockets in /run, which is empty, those that the environment names, and those of
// terminal multiplexers and window systems in /tmp; with Policy.Confine, by the program
// itself, every socket on which somebody outside listens. Input pushed into the terminal of
// the person who started it. What is mounted on this machine later, where this user may
// make a mount namespace.
//
// Nothing that a command does in a writable root makes the next sandbox another one: the
// directories on the way to what is hidden, protected or writable cannot be moved or
// removed, and a path is refused that leads to such a thing by a symbolic link which a
// command can replace. Of the repository of a linked worktree, hooks and configuration
// that exist are read-only, those of the worktree's own submodules too, and so is all that it
// keeps of the other worktrees that it has. A workdir is followed once, and what is mounted is
// told to the program by its number: a name that a command of another sandbox changes while
// this one is built leads nowhere, for the program then does not serve.
//
// # What programs outside obey
//
// In the workdir and in every root that was asked for, what programs outside run or obey
// without being asked is read-only where it exists: the configuration and the hooks of a
// git repository, also where core.hooksPath says that they are, and of its submodules at any
// depth and in its other worktrees, or where there are too many, all that it keeps of them; the
// settings of editors, agents, hook managers and environment managers; and, where a home
// directory lies in a root, what shells and sessions run when they start. The names that do
// not exist are Wall.Absent: nothing keeps a command from making them, and the guest tells
// when one has; what appears after the last command is told when the next place starts. For
// Wall.Unwatched there is no room, or it cannot be looked at.
//
// A repository is where git finds it: in .git, where a file of that name leads, if that is
// in a root, and in the root itself. A root that is none becomes one by HEAD, which is watched
// for. Its submodules are those that its index names: git goes into each of them, at
// `git status` already, so that the .git of each is read-only where it is a file, and its
// parts are where it is a directory. What a command makes a submodule later, by writing the
// index, is told by the guest, which watches Wall.Indexes; so is an index that leads git
// astray. Neither is refused. A directory that a command has closed to its own user, so that
// nobody can look at what it holds, is read-only as a whole until somebody outside opens it.
//
// This has its price. A commit works; `git config`, `git remote add`, a branch that is to
// track another and the end of `git push -u` fail where they write .git/config, and so does
// a checkout that changes one of the files. A submodule can be committed in and checked out by
// hand, but `git submodule update` fails where it writes a configuration, a submodule cannot
// be moved or removed, and of a new one a person is told. Who wants to have one of the
// directories written names it as a writable root: it then is, and so is what lies in it.
//
// Not covered: repositories deeper in the tree but submodules, a name that is a symbolic
// link (what it leads to is covered, in a root; the link can be replaced), what a
// configuration includes from elsewhere, links that a command plants among a repository's
// refs and logs, through which git outside appends its lines to another file of its user,
// what a rebase that has stopped is to do next - git itself writes that inside, and lines of
// it are run by who continues outside -, and all that a person runs by name: build files,
// scripts, the programs of the tree.
//
// # What guard does not stop
//
// Reads of everything else that the user can read, and of what accounts of the system keep
// in their directories so far as their modes allow. Writes in /tmp and /var/tmp, which are
// the machine's own and shared with everybody on it. Where the network is open: a connection
// to every service that listens on this machine's addresses. What a command writes in a
// writable root and a person or a program runs outside later, as said. Writes into named pipes
// outside of the writable roots that the user may write: a mount that is read-only does not
// concern what is no file, so that what somebody outside reads from one can be a command's.
// The use of CPU, memory, processes and disk, but for the limits of the place.
//
// The directories in which the terminal multiplexer looks for its sockets lie among the
// temporary ones, and whoever makes one first commands the clients that attach later.
// Who makes the policy of a guard makes those that are missing, to have them masked; they stay,
// empty. One that something outside removes, as what clears up old temporary files may, is a
// hole as below.
//
// A mount covers a file or directory, not a name. When a program outside replaces what is
// hidden or protected - by a rename, as editors, shells and logins do - the kernel takes
// the cover away in every sandbox that runs, and what runs in it then sees the new one. A
// directory that is hidden whole has no such gap for what is in it. Wall.Sealed lists the
// covers: who connects to a sandbox looks first whether all are there, and does not if one
// is gone. Until then, and for what is already running, the gap is open. Files that
// programs obey are not among them: git writes its configuration by a rename, so that every
// `git config` outside would end the use of the sandbox; after one, that file can be
// written inside. What did not exist when the sandbox started is not hidden in it.
//
// # Jail
//
// In a jail nothing exists but: /usr and what of /bin, /sbin and /lib* the system has; of
// /etc the libraries' and certificates' lists, names of time zones, languages and services,
// and files made for it that name one user; /dev, /proc; the writable roots, at their paths;
// empty directories for /tmp, /var/tmp, TMPDIR and the home directory, in memory, which end
// with it. Not /sys (but for the control group of its own memory), not /opt, /srv, /var,
// /home, nor /run. The repository of a linked worktree counts as a part of the workdir.
// What guard says of writable roots, names that are obeyed, the network and sockets holds.
//
// A jail does not hide the layout of mounts from /proc/self/mountinfo, which names where
// they come from; it has the kernel, and the programs of the system with what the system's
// administrator has installed for them in /usr. A system whose programs lie elsewhere, as
// in /nix, has none in it.
//
// # Who runs it
//
// An ordinary user's sandbox runs as that user, in a user namespace. Root's does not run as
// root: it becomes the owner of the workdir, or nobody (65534) where that is root, to whom
// what is root's in the writable roots belongs by an idmapped mount, on disk still root's
// (Wall.Idmapped). Root's home directory is an empty one, and a directory on the way that
// only root can pass is empty but for what is to be reached in it. A root that belongs to a
// third user is writable as its mode says. The wrapper then makes no user namespace: it
// starts the program as root with the capabilities to become another user and to give away
// what is made for it, and nothing else, and the program does so before all else (--drop,
// --own). Where that cannot be had, root stays root (Policy.KeepRoot), in a user namespace
// and without a capability: every file that root can read and that is not hidden can then be
// read, and in a jail, what there is.
//
// # Mounts
//
// Every mount point exists before it is mounted on, or lies on a file system that ends
// with the sandbox: nothing is left in the work tree. A path that does not exist is
// neither hidden nor protected, and cannot be made outside a writable root. What is hidden
// in numbers is hidden by its directory: the number of mounts does not grow with a machine's.
package isolate
