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
// Attach. One that somebody paused is CodeUnavailable for both: it is neither gone
// nor ours to wake.
//
// # Life and death
//
// A place without a key is ended by its guest once its last client has gone, and
// then removed by the engine. Reap kills and removes a container with its anonymous
// volumes. Guest volumes ("berth-guest-...") are caches that belong to the engine,
// not to an owner: neither Reap nor the end of a place removes them.
//
// # Hardening
//
// Whatever was asked for is read back from the engine after the creation; a container
// on which something did not take is removed, and the answer is CodeUnsupported.
// Network "" is none. With a read-only root, the workdir and /tmp are anonymous
// volumes. The workdir belongs to the container's user, whoever that is.
//
// The engine speaks JSON, which has no bytes: an environment value that is not
// UTF-8 is CodeUnsupported here; Command.Env has no such limit.
//
// # Files
//
// There is no process.go: package guest implements commands for every backend that
// has a stream to a guest.
package place
