// Package engine reaches a container engine through its HTTP API, version 1.40 or
// later: Docker's own, or Podman's service that speaks the same.
//
// Every request passes through Engine.Do, where the fence is asked, the deadline is set
// and the error gets its code, by type and by status and never by its words. A Dialect
// says what differs from one kind of engine to another. Package place makes sandboxes
// of it.
package engine
