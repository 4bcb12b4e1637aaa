// Package driver is what the author of a backend implements.
//
// A backend does three things: it makes a place, it puts a guest there, and it
// hands back a byte stream to it; package guest turns that stream into a Session.
// Users never see these interfaces: they hold the concrete types of the root
// package, which apply limits, deadlines, fencing and error wrapping once. A
// driver value is never wrapped, so an optional interface never vanishes.
//
// # Errors
//
// A driver returns *spec.Error with the code known at the point of failure and
// leaves Op, Backend and ID to the root package. io.EOF and the errors of a
// context pass as they are. An error from a call that may have taken effect has
// CodeUnknownOutcome; CodeUnavailable promises that nothing was done.
//
// # Authority
//
// Every call that reaches an engine, an API or a guest passes through one
// function of the backend, where the fence is checked and the deadline applied.
// A refused fence sends nothing and returns CodeStaleOwner.
//
// # Concurrency
//
// A Driver and a Session are safe for concurrent use. A ctx ends a call with the
// context's error and leaves nothing half made: what a cancelled Provision had
// created is either removed or found again by its key.
package driver

import (
	"context"
	"errors"
	"io"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Driver makes and finds places of one kind.
type Driver interface {
	// Name is the backend's name: lower case, constant.
	Name() string
	// Probe says what can be enforced here and now, and why not. It creates
	// nothing. An engine that cannot be reached is CodeUnavailable with a Hint.
	// The caller caches the answer.
	Probe(ctx context.Context) (spec.Caps, error)
	// Provision creates the place of s, or adopts the one that exists under its
	// key, starting it if it is stopped. s is valid and within the caps. A place
	// with our name and another owner is CodeExists; with another spec it is
	// CodeSpecMismatch; neither is touched. Concurrent callers converge on one
	// place, and the loser of a race makes the same checks.
	Provision(ctx context.Context, s *spec.Spec, o ProvisionOptions) (Session, error)
	// Attach returns a session of a running place. It heals, starts and creates
	// nothing: a stopped or missing place is CodeNotFound.
	Attach(ctx context.Context, key spec.Key, o AttachOptions) (Session, error)
	// Owned lists everything here that carries our owner label, running or not.
	Owned(ctx context.Context) ([]spec.Owned, error)
	// Reap removes the place and all that was made for it, and returns when it
	// is gone. It is idempotent: nothing to remove is success. It tries every
	// removal even after one has failed.
	Reap(ctx context.Context, key spec.Key, o ReapOptions) error
}

// ErrOnDemand is why an engine is CodeUnavailable that is started by those who use it, and
// that was not to be started.
var ErrOnDemand = errors.New("its service does not run; it is started when the backend is used")

// Authority is the right to act on a place. The zero value is the authority of a
// sole owner.
type Authority struct {
	// Epoch is the owner's; a place that has seen a higher one refuses it with
	// CodeStaleOwner.
	Epoch uint64
	// Fence, if set, is asked right before every request is sent; its error
	// stops the request, which then fails with CodeStaleOwner.
	Fence func(ctx context.Context) error
}

// Check runs the fence.
func (a Authority) Check(ctx context.Context) error {
	if a.Fence == nil {
		return nil
	}
	if err := a.Fence(ctx); err != nil {
		return &spec.Error{Code: spec.CodeStaleOwner, Err: err}
	}
	return nil
}

// ProvisionOptions modify Provision.
type ProvisionOptions struct {
	Authority Authority
	// Replace removes a place whose spec differs and makes a new one.
	Replace bool
	// Progress, if set, is called with what takes long; never concurrently.
	Progress func(spec.Progress)
}

// AttachOptions modify Attach.
type AttachOptions struct{ Authority Authority }

// ReapOptions modify Reap.
type ReapOptions struct{ Authority Authority }

// Session is one client's hold on a running place.
type Session interface {
	// ID names the place in messages and listings; stable for its life.
	ID() string
	// Caps says what this very place can do and enforces now.
	Caps() spec.Caps
	// Start starts a command. c is valid; it is copied before Start waits. ctx
	// bounds the command's life, as in os/exec: when it ends, the command's
	// tree is ended (TERM, grace, KILL) and Wait returns the context's error.
	// A program that cannot be started is CodeStartFailed, whose cause is
	// fs.ErrNotExist or fs.ErrPermission where that is why.
	Start(ctx context.Context, c *spec.Command, io Stdio) (Process, error)
	// Files gives the place's files.
	Files() files.FS
	// Status asks the place how it is.
	Status(ctx context.Context) (spec.Status, error)
	// Close lets go of the place and ends the commands of this session that
	// have no key. It is idempotent. The place itself stays: a keyed one is
	// kept, another one is reaped by its guest.
	Close(ctx context.Context) error
}

// Stdio are the ends of a command's standard streams.
type Stdio struct {
	// Stdin is copied to the command until it ends, then the command sees the
	// end of its input. nil: the input is empty. A Read that blocks does not
	// hold up Wait.
	Stdin io.Reader
	// Stdout and Stderr get the command's bytes as they come, each from one
	// goroutine of its own; a slow writer slows the command and costs no
	// memory. nil: discarded inside the place. A writer's error ends the
	// copying of that stream, and is returned by Wait once the command ended.
	Stdout, Stderr io.Writer
}

// Process is one command that started.
type Process interface {
	// ID identifies the command inside its place.
	ID() string
	// Signal sends a signal to the command's process group. A command that has
	// ended is no error.
	Signal(ctx context.Context, s spec.Signal) error
	// Kill ends the command's whole tree with KILL, and returns when it has
	// been done. What is known of the result is in the Exit.
	Kill(ctx context.Context) error
	// Wait returns what became of the command, after all of its output has been
	// written to Stdio. A background child that keeps a pipe open does not hold
	// it up. ctx bounds the waiting only; Wait may be called again, and from
	// several goroutines, and answers the same.
	//
	// The four answers are different: an Exit (with TimedOut or without), a
	// place that was lost (CodeUnknownOutcome), and the context's error.
	Wait(ctx context.Context) (spec.Exit, error)
}

// Pinger is a Session that can measure its transport: one round trip to the
// guest with no work in it.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Stopper is a Driver whose places can be stopped and kept, to be started again
// by Provision.
type Stopper interface {
	Stop(ctx context.Context, key spec.Key, o ReapOptions) error
}
