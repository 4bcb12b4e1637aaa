// Package buildkit is what a client of BuildKit has to be for an engine to build with it:
// the session by which the engine asks its client for credentials, and a reader of what the
// engine says of a build's course.
//
// # The session
//
// A session is a connection to the engine on which the roles are exchanged: POST /session
// is upgraded to HTTP/2 without TLS, and then the client serves gRPC to the engine. Two
// methods are served: grpc.health.v1.Health/Check, by which the engine sees that its client
// lives, and moby.filesync.v1.Auth/Credentials, which knows the registries that Open was
// given and no others. Where Open was given files there is a third,
// moby.filesync.v1.FileSync/DiffCopy: the engine is told of all that are in a directory, by its
// name, whatever patterns it sends, and asks for the content of some by their number. It says
// no path. Everything else is Unimplemented: no other file, no secret, no ssh agent and no
// token of this side can be had.
//
// gRPC is here what it is on the wire, over the HTTP/2 of the standard library: messages with
// a length before each, and a status in the trailers. Of protocol buffers there is a
// reader of fields. Both are strict, and both are bounded, since an engine may be another's.
//
// # The log
//
// An engine says how a build goes on in messages of type StatusResponse, in base64 in its
// stream of JSON. Log makes lines of them that people read, as the docker command does with
// --progress=plain: each step has a number, which is before each line of its output.
package buildkit
