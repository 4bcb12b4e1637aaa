// Package place keeps places on one machine: a state directory in which each
// place has a directory of its own, and a guest that outlives the program that
// started it.
//
//	<Dir>/locks/<id>       held (flock) while a place is made, started, stopped or removed
//	<Dir>/<id>/record.json what the place is and which process is its guest
//	<Dir>/<id>/sock        the guest's listener: made here, inherited by the guest
//	<Dir>/<id>/guest.log   what the guest said on its stderr since its last start
//	<Dir>/<id>/workspace/  the workdir of a place whose spec names none
//	<Dir>/made/<id>        what appeared in a place that has ended, to be told at the next start
//
// # Identity
//
// The id follows from owner and key alone, so that every process finds the same
// directory. A record names its guest by pid, start time and boot id: a pid alone
// is never believed, and never signalled.
//
// # Crashes
//
// The record is written before the guest is started (pid 0), and again when its pid
// is known; both writes are atomic. A record whose guest is gone is a stopped place,
// or, without a key, a leftover that the next Owned or Provision removes. A guest
// that was started and never recorded is found by its socket and its id.
//
// Where /proc hides a guest from its own user (hidepid), it runs if it answers on its
// socket, and ends by being asked.
//
// # Environment
//
// What is started - a wrapper, the program that joins a control group, the guest - gets a
// fixed environment. That of commands, which may hold secrets and names of libraries to be
// loaded, is in a sealed file in memory that only the guest reads, inside.
//
// # Concurrency
//
// A Root is safe for concurrent use, within a process and between processes. The
// common case, adopting a guest that runs, takes no lock.
//
// # Limits
//
// A place with limits has a control group, named after its id and this state directory. It
// is made before the guest is started and read back, joined by what is started before that
// becomes the guest, and removed by whoever ends the place, starts it anew, or lists it
// stopped. Where the record does not say where it is, it is looked for by its name. As a scope
// of systemd it is kept by a descriptor that goes to what is started, until that has joined.
//
// # Another user
//
// A guest that root starts may become another user by itself (Plan.Drop). The listener is
// made here all the same, so that root is who listens as far as a client can tell; the
// record names the user, so that the guest is still known for ours. What lies in the
// place's directory is root's on disk: the plan has it idmapped, in the mount namespace
// of a thread that starts the guest and ends. No other thread sees it.
//
// # Platform
//
// Places exist on Linux. Elsewhere the types are there, for the client of a far
// side, and every method returns CodeUnsupported.
package place
