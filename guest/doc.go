// Package guest is the host's side of a guest: it turns a byte stream to a guest
// into a driver.Session (Open), and finds the guest binary that a backend puts into
// a place (Binary). With both, a backend is a hundred lines: it makes a place,
// starts the binary there, and hands over the stream.
//
// # The stream
//
// Any io.ReadWriteCloser that is reliable and ordered will do: a pipe to a child
// process, a relayed exec of an engine, a channel of SSH. Its Close must end a Read
// and a Write that are under way. Open owns the stream from the moment it is called.
//
// # A lost connection
//
// A connection that ends is dialled again when it is needed and OpenOptions.Redial
// says how: by the next operation, or at once for the sake of a running command,
// which takes up its streams at the byte they had reached. A command is given up
// when the guest cannot be reached within the resume window that it stated, refuses
// this client, or no longer knows the command: then Wait answers CodeUnknownOutcome.
// An exit is never invented. Operations that only read are repeated once; one that
// may have changed something is not, and is answered with CodeUnknownOutcome.
//
// # Jobs
//
// A guest that is started with "serve --state DIR" keeps jobs in that directory, which
// must be its user's own, writable, and part of the place: gone with it, there again
// when it is started again. A backend that gives one states in OpenOptions.Caps how long
// the jobs of the place live. The calls about jobs go on over a redial.
//
// # The guest is not trusted
//
// It lives among the code that it runs. Every frame, string, count and offset that
// it sends is bounded and checked; a call ends by its ctx or by a bound of its own
// whatever the guest does, and a command's deadline is kept here too. Nothing that
// a guest says chooses a path on this machine.
//
// # Memory
//
// Nothing is buffered without a bound: a stream costs at most the window of its
// Profile in each direction and one chunk. A slow writer slows the command.
//
// # Concurrency
//
// A Session and what it gives out are safe for concurrent use. When Close has
// returned no goroutine of the session is left, save one that waits in a Read or
// Write of the caller's own, or in a transport whose Close does not end them.
package guest
