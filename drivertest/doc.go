// Package drivertest is the conformance suite: what every backend promises, as data.
//
// A Case names one promise, quotes it, and tries it through the portable type on a
// real place. The same cases run under go test and from a command line:
//
//	func TestConform(t *testing.T) {
//		drivertest.Run(t, drivertest.Options{Open: func() (driver.Driver, error) { return mine.New(mine.Options{}) }})
//	}
//
// A case is skipped only if the place declares, in its Caps, that it lacks what the
// case needs, or if a file that the case is about (a device, a mount point) does not
// exist there; the reason is reported. Nothing else excuses a failure.
//
// # What a backend must offer the suite
//
// Options.Open makes a fresh driver value, as another process would have one: cases
// that are about two clients use two. Cases end what they start and remove what they
// provision; keys start with "conform-". No case can harm the machine: those that
// signal everything run only where the guest is shielded by a pid namespace.
//
// # Walls
//
// Probes are attempts on the machine around a place, and Walls says which of them work
// from inside: what a level stops and what it does not. They are findings, not cases: it
// is for a backend's own tests to say which of them it promises to stop.
//
// # Testing
//
// SlowStream wraps the stream to a guest so that it fragments, delays and stalls;
// a backend that lets its transport be wrapped runs the suite through it too.
package drivertest
