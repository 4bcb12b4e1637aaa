// Package agent is the inside of a guest: what runs commands, keeps their output
// until it has been collected, serves files and ends the place.
//
// It lives among code that nobody has read, so it depends on nothing that a
// command can change: results come from wait status and descriptors, never from
// text; its settings come from its arguments and never show in a command's
// environment; a signal that can be caught does not end it.
//
// A command (command.go) belongs to the place, not to a connection: it owns its
// streams (package stream), which outlive any connection, and is known by id and by
// key (table.go). A job (jobs.go) is a command that belongs to no client: package job
// keeps its record, its log and what its owner is to be told. A client (client.go) is
// one connection. One goroutine reaps every child of the process (package proc). What a
// host may rely on is written in package wire.
//
// # Environment
//
// A command gets the environment that the guest was handed at its start, where there is
// none its own, less BASH_ENV and ENV, then what the request adds. Unless it asks for a clean one it also gets
// BERTH_COMMAND, a random word by which a process that has left its session and
// its parents is still recognised when the tree is killed.
//
// # Ending a tree
//
// Where the guest can make a cgroup, each command starts in one of its own, and
// cgroup.kill proves that nothing is left. Elsewhere descendants are found in
// /proc by parentage, by session and by BERTH_COMMAND, again and again.
package agent
