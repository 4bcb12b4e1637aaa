// Package proc is what a guest knows about processes: how to be one that its
// children cannot end (shield.go), how to start them (launch.go) and reap them
// (reaper.go), and how to find and end everything that one of them has brought forth
// (tree.go), with control groups where there are any (cgroup.go).
//
// Everything in it concerns the calling process and what is below it. Linux only.
package proc
