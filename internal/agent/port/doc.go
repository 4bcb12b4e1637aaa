// Package port reaches what listens inside a place, listens there for the host, and lists
// what does. A connection is one stream of the host and one socket of the guest, and what
// goes through them waits in no other place: who does not read stops who writes.
//
// The guest connects as any command does, and by the same call: where commands are
// confined (package confine), the kernel asks the gate about the guest's own connect(2)
// too, so that nothing is reached here which a command could not reach. On the guest's own
// socket, which is the host's, no byte is spoken.
package port
