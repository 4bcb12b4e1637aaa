// Package docker makes places that are containers of a Docker engine, reached
// through its HTTP API, version 1.40 or later.
//
// A place is one container: the image as it is, with nothing added to it. The guest
// comes in a volume that is mounted read-only at /.berth and shared by all places of
// one guest version; it is the container's pid 1. So an image needs no shell, no tar,
// no writable root and no network, and a command costs a fork, not a round trip to the
// engine.
//
// A container's name is "berth-" and 16 hex digits of a hash of owner and key; labels
// carry both in clear, and the hash of the spec. One with our name and other labels is
// CodeExists and never touched; one with another spec is CodeSpecMismatch, remedied by
// ProvisionOptions.Replace. One that is stopped is started by Provision and is
// CodeNotFound for Attach; one that is paused, by whomever, both let go on.
//
// A place without a key is ended by its guest once its last client has gone, and then
// removed by the engine. Guest volumes ("berth-guest-...") are caches that belong to
// the engine, not to an owner: neither Reap nor the end of a place removes them.
//
// Whatever was asked for is read back from the engine after the creation; a container
// on which something did not take is removed, and the answer is CodeUnsupported. The
// engine speaks JSON, which has no bytes: an environment value that is not UTF-8 is
// CodeUnsupported here; Command.Env has no such limit.
package docker
