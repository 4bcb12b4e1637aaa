// Package direct is the guest's half of a way from a host on the same machine to the guest
// of a container that leads past the container's engine.
//
// The host listens and the guest connects: nothing that a place holds is ever a path to the
// host. The host makes a socket in a directory that only it can write to and that is mounted
// here to be read, and rings: it writes to a FIFO there. The guest looks for sockets then and
// connects to each once. Who made one has to be outside of the place, by the kernel's word;
// that is the caller's to check, by package peer.
//
// A FIFO and not inotify, of which a user has 128 on a machine, whatever the number of places;
// and whoever rings is told when no guest is there to hear it.
//
// The commands of the place see the sockets too, and can connect while one is there. The host
// turns away every process but the guest, so that all they can do is to take its time, or the
// guest's for looking: then the host goes by the engine.
package direct
