// Package direct is a way to the guest of a container on this machine that leads past the
// container's engine: a unix socket, which carries ten times what an engine relays, and costs
// no program that the engine has to start.
//
// # How
//
// A container gets a directory of this user's, of a random name, mounted to be read. To reach
// its guest the host makes a socket there, listens, and rings by writing to a FIFO beside it;
// the guest connects. The socket is removed as soon as the guest is there. So no path that a
// place has any power over is ever resolved here: the host opens its own directories only,
// which nobody else can write to, and what is in the container can neither make, remove nor
// replace anything in its own, root or not, the mount being read-only. Should it all the same,
// the guest connects to nobody inside.
//
// # Who connects
//
// The directory and its sockets are to be seen by every command of the place, whatever user it
// has, and while a socket is there each of them can connect to it. The host goes by what the
// kernel says of whoever has connected: it has to be the first process of a pid namespace
// right below the engine's own, with the pid that the engine knows the container's by, and be
// there since before the socket was. Others are dropped and cost the guest its place in the
// queue, no more; where they crowd, the host gives up after a second and goes by the engine.
//
// What cannot be told is refused: an engine that is in a machine of its own, or whose processes
// this one cannot see, as from inside a container.
//
// # What is left
//
// A directory belongs to its container and is removed after it. Who is killed leaves one that
// Prune finds by asking the engine, and perhaps a socket that nobody listens on, which the next
// dial sweeps. Directories of engines with other sockets are never touched. One that is missing
// is made again before its container starts, or the engine would refuse to start it.
package direct
