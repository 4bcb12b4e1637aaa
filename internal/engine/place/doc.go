// Package place makes places that are containers of an engine: what the backends docker
// and podman are made of.
//
// # A place
//
// A place is one container: the image as it is, with nothing added to it. The
// guest comes in a volume that is mounted read-only at /.berth and shared by all
// places of one guest version; it is the container's only process at first, pid 1,
// and listens on an abstract socket with a random name. A connection is one exec of
// the same binary as a relay: the relay talks to pid 1 only, the guest to a peer
// that an engine started only. So an image needs no shell, no tar, no writable root
// and no network, and a command costs a fork, not a round trip to the engine.
//
// Where engine and host are on one machine there is a way beside the engine's, which is faster:
// a directory of the host's is mounted read-only at /.berth/direct, and package direct says how
// the two meet there. It is tried first, and whatever is wrong with it is no error: the relay
// works, or says why nothing does. It is no part of the spec, and no mount that Status tells of.
//
// # Identity
//
// The name is "berth-" and 16 hex digits of a hash of owner and key; labels carry
// both in clear, and the hash of the spec. A container is found by its exact name.
// One with our name and other labels is CodeExists and never touched; one with
// another spec is CodeSpecMismatch, remedied by ProvisionOptions.Replace. The loser
// of a race to create makes the same checks. What was given at creation stays:
// environment, lifetimes, the guest's version.
//
// A container that is stopped is started by Provision and is CodeNotFound for
// Attach. A pause is a suspension, whoever made it: whoever uses the place, or ends it,
// lets it go on.
//
// # Suspension
//
// Suspend is the engine's pause. Connections stay, and what is sent waits; the guest's
// timers run on, so that an idle timeout that passes meanwhile ends the place when it goes
// on. An engine that pauses a container while a program is being started in it may answer
// for it no more until it goes on, so this process does not do both at once, and asks the
// list of containers, which is always answered, before anything else.
//
// # Snapshots
//
// A snapshot is an image, as package snapshot says. A place that is restored of one has
// that image in its spec, by the snapshot's name: to Provision it is the same place with
// that image only. Its guest begins with an empty state.
//
// While one is taken the place is suspended, and goes on afterwards unless it was suspended
// before. Whoever uses it meanwhile lets it go on, as always, and the snapshot says that it was
// given up, as it is where another process suspends the place; a Suspend of the same process
// waits.
//
// # Life and death
//
// A place without a key is ended by its guest once its last client has gone, and
// then removed by the engine. Reap kills and removes a container with its anonymous
// volumes. Those that a read-only root needs and those that the image declares have the
// owner's label, for a prune, where an engine gives a mount's labels to its volume, as Docker
// does; on Podman they have none, nor has on Docker one that is declared where the strict
// profile has /tmp. Guest volumes ("berth-guest-...") are caches that belong to the engine,
// not to an owner: neither Reap nor the end of a place removes them. A prune may, at any
// moment: a start that finds its guest gone puts it there again.
//
// # Hardening
//
// Whatever was asked for is read back from the engine after the creation; a container
// on which something did not take is removed, and the answer is CodeUnsupported.
// What only a start shows - a port that is in use, a profile under which the guest does
// not come up - fails the Provision that created the container, which removes it. With a
// read-only root, the workdir and /tmp are anonymous volumes. The workdir belongs to the
// container's user, whoever that is.
//
// The profile strict drops every capability, makes the root read-only, and allows two
// CPUs, 2 GiB of memory and 512 processes where nothing less is asked for. /tmp is 64 MiB
// of that memory, and no program runs from there. Where no user is named, commands have the
// ids of the caller, or 65534 if that is root. Where the engine is an ordinary user's Podman,
// a user namespace (keep-id) has them be that user, inside and outside: what that user has
// mounted there can be used, and what commands make there is theirs. Any other id inside is
// one of their subordinate ids. It is read back; other engines have no such namespace, root's
// Podman refuses it, and the capabilities of a place say where it is missing. The first place
// of an image takes longer there: the engine makes a copy of the image with other owners.
//
// # What comes in from the machine, and what shows there
//
// The source of a mount is a path of the engine's machine. Nothing is mounted over /.berth
// and /var/lib/berth, nor over what holds them. A directory that is mounted keeps its
// owner; a workdir that is mounted read-only is a workspace that is read. A socket in what
// is mounted can be connected to: such a place does not declare ConfinedSockets.
//
// Network "" is none, and a published port needs one that is open. In the network of the
// machine, or of another container, abstract sockets are everybody's. Who is there sees the
// guest's and can connect to it, and is turned away: the guest talks to processes that an
// engine put into its own pid namespace, the relay to pid 1 of it, by the kernel's word.
// It is not kept from other harm: who holds the name of a place that is stopped keeps it
// from starting, who connects without end makes the guest turn away without end, and the
// commands of the place reach whatever else listens in that network.
//
// A secret is a variable of the container: whoever may ask the engine, and every process
// of the place, can read it.
//
// The engine speaks JSON, which has no bytes: an environment value that is not
// UTF-8 is CodeUnsupported here; Command.Env has no such limit.
//
// # Files
//
// There is no process.go: package guest implements commands for every backend that
// has a stream to a guest.
package place
