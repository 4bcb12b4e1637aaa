// Package cgroup limits what a place may use of this machine: it makes the control
// groups that the kernel enforces memory, pids and cpu by, sets them, and removes them.
//
// # Where groups are made
//
// Each of the three controllers lives in one hierarchy: one of its own (v1), the unified
// one (v2), or, on a hybrid machine, some in these and some in that. In v1 a group is
// made below the one that this process is in.
//
// In v2, where systemd runs the machine, a group is a scope of its: NAME.scope, a transient
// unit with Delegate=yes that systemd-run makes and limits, of the manager of this user, or
// as root of that of the machine. Not among systemd's groups without its knowledge: when the
// last of its units that needs a controller ends, it takes the controller, and with it the
// limit, away from every group beside that it did not make.
//
// Where systemd does not run the machine, or makes no scope, the group is a directory. In
// v2 a group with processes can have no limited children, so that it is made below this
// process's own where that works, else beside it, or further up - but never above a group
// that has a limit itself: what holds for this program holds for what it starts. That is
// so of scopes too: one that would have more of anything than a group that is left for it
// is refused.
//
// Where the kernel and systemd let this user make none, there are no limits, and the error
// says why and what helps.
//
// # Scopes
//
// A scope ends with the last process in it. Until somebody has joined, a process of ours
// waits in it, for as long as Group.Hold is open; so a scope whose maker dies is gone. It is
// systemd that removes a scope: Remove kills what is in it, and waits.
//
// A user may not move a process from a login session into the groups of the user manager.
// Join asks the manager to (AttachProcessesToUnit), by busctl and the bus of the user. Where
// there is no such bus, limits are refused outside of the manager; below it, as by
// systemd-run --user --scope, none is needed.
//
// What is in a scope of a user ends with the user manager: at the end of the last login of
// a user who does not linger (loginctl enable-linger). A unit without a limit on processes
// has systemd's own (DefaultTasksMax).
//
// # Promises
//
// A limit is read back after it was set. One that is not in force as asked is
// CodeUnsupported, and nothing of the group is left; what the kernel rounds to whole
// pages counts as taken. A memory limit is one on memory and swap together. v2 takes a
// limit that is higher than that of a group above; both are enforced.
//
// Groups have names that their maker chooses and can find again (Lookup), so that
// nothing is lost with the program that made one. Remove kills what still lives in a
// group: only groups whose name begins with Prefix are ever removed.
//
// # What was run
//
// v1 and hybrid machines are tested with a real kernel by the suite. v2 is tested by what is
// read and written, with files in place of the kernel's and of systemd's; with a real kernel
// (Linux 6.1, systemd 252) on an emulated machine, as testdata/vm.sh makes one, which is no
// part of the suite. There the tests of this package were run as root and as a user in login
// sessions, and one as services of both managers and without a bus; of backend/process those
// of what limits leave, and the conformance cases of limits and OOM at level none (some of
// them behind guard), as the user, of which LimitSparesTheGuest does not end in its time on a machine so slow. Not run:
// other versions of systemd, v2 in a container, a hybrid machine with systemd.
//
// Everything is safe for concurrent use; nothing is kept between calls. Groups exist on
// Linux; elsewhere Discover finds none.
package cgroup
