// Package ondemand starts an engine's service when somebody wants to speak to it, and finds
// the one that somebody else has started.
//
// The services of a directory are sockets in it, each with a name of its own, so that a
// service that ends, and removes its socket, never removes that of another. Whoever finds
// none that answers takes the lock of the directory, looks again, removes the sockets of
// services that died, and starts one; the lock is held until it answers, and those who wait
// for it use that one. Nothing but sockets and the directory itself is ever there for longer:
// a service ends by itself some time after its last connection, whatever has become of the
// program that started it.
package ondemand
