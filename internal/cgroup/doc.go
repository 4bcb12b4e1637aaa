// Package cgroup limits what a place may use of this machine: it makes the control
// groups that the kernel enforces memory, pids and cpu by, sets them, and removes them.
//
// # Where groups are made
//
// Each of the three controllers lives in one hierarchy: one of its own (v1), the unified
// one (v2), or, on a hybrid machine, some in these and some in that. In v1 a group is
// made below the one that this process is in. In v2 a group with processes can have no
// limited children, so that the group is made below this process's own where that works,
// else beside it, or further up - but never above a group that has a limit itself: what
// holds for this program holds for what it starts. Where the kernel lets this user make
// none, there are no limits.
//
// # Promises
//
// A limit is read back after it was set. One that is not in force as asked is
// CodeUnsupported, and nothing of the group is left; what the kernel rounds to whole
// pages counts as taken. A memory limit is one on memory and swap together.
//
// Groups have names that their maker chooses and can find again (Lookup), so that
// nothing is lost with the program that made one. Remove kills what still lives in a
// group: only groups whose name begins with Prefix are ever removed.
//
// # What was run
//
// v1 and hybrid machines are tested with a real kernel; v2 is tested by what is read and
// written, with files in place of the kernel's.
//
// Everything is safe for concurrent use; nothing is kept between calls. Groups exist on
// Linux; elsewhere Discover finds none.
package cgroup
