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
// it sends is bounded and checked, a breach is CodeInternal, and nothing that a guest
// says chooses a path on this machine. An exit is believed only if it agrees with the
// bytes that came, a file or a log only if it has the length that was stated.
//
// # Time
//
// A call ends with its ctx, at once, whatever the guest does: says nothing, half of
// something, or more than can be read. Beside that, and for callers whose ctx has no
// end:
//
//   - Open and each redial take at most 30 s.
//   - A command that has a timeout is answered Timeout, Grace and 2 s after its request;
//     Start too returns by then. One that is cancelled is answered at once, and let go of
//     after Grace and 5 s. After an exit the rest of the output comes with pauses of at
//     most 10 s, or as long again on another connection, and within 5 min, not counting the
//     caller's own Writes. A command without a
//     timeout, or its Start, waits for the guest as long as its ctx does: a place may be
//     paused for any time.
//   - A connection that breaks is given up after the resume window that the guest stated,
//     which is taken as 5 s at least and 10 min at most; so is a guest that lets itself be
//     reached and breaks off within a second, each time. In between are pauses of up to
//     1 s.
//   - A stream that ends without an answer is a breach after 2 s, if its connection holds.
//   - Terminate takes Grace and 30 s, Close 5 s.
//   - All else - a question about files or jobs, KillJob, Shutdown - is bounded by its ctx
//     alone.
//
// Deadlines are kept by the monotonic clock: setting the machine's time moves none.
//
// # Memory
//
// Nothing is buffered without a bound. Whatever a guest sends, a session holds less than
// 32 MiB beside its streams, and beside what its callers have asked for and hold. A
// stream - one for a call, one for each standard stream of a command and one for itself -
// costs its window (see Profile) in each direction, twice while a buffer grows, and one
// chunk; a message costs at most 16 times its bytes, of which it has 512 KiB. What comes
// for a call that has ended is dropped; a guest that leaves more than 4,096 ended streams
// open is cut off. A list of jobs is taken up to 20,000 or 32 MiB, one of what runs up to
// 20,000; sequences of files, matches and lines go on until the caller has enough. At most
// 256 requests wait for a transport that takes nothing; more callers wait without one. A
// slow writer slows the command.
//
// # Concurrency
//
// A Session and what it gives out are safe for concurrent use. When Close has
// returned no goroutine of the session is left, save one that waits in a Read or
// Write of the caller's own, or in a transport whose Close does not end them.
package guest
