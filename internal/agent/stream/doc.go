// Package stream carries the standard streams of a command between its pipes and
// whichever connection to a host there is. An Outlet and an Inlet belong to the
// command and outlive connections: what a lost one swallowed is sent again.
//
// Back-pressure goes end to end: a host that does not read stops the command, a
// command that does not read stops the host, and neither costs memory beyond the
// window.
package stream
