package berth

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Provision makes the place of s with d, or adopts the one that exists under
// s.Key, starting it if it is stopped, and returns when it is ready.
//
// What d cannot enforce is ErrUnsupported before anything is created. A place that
// exists with another spec is ErrSpecMismatch, one of another owner ErrExists;
// neither is touched.
func Provision(ctx context.Context, d driver.Driver, s Spec) (*Sandbox, error) {
	return ProvisionWith(ctx, d, s, ProvisionOptions{})
}

// ProvisionWith is Provision with options.
func ProvisionWith(ctx context.Context, d driver.Driver, s Spec, o ProvisionOptions) (*Sandbox, error) {
	return opened(ctx, New(d, s, o))
}

// Attach returns a Sandbox on the running place that has key. It starts, heals and
// creates nothing: a place that is stopped or missing is ErrNotFound. Close of what
// it returns lets go of the place and leaves it as it is.
func Attach(ctx context.Context, d driver.Driver, key Key) (*Sandbox, error) {
	return AttachWith(ctx, d, key, AttachOptions{})
}

// AttachWith is Attach with options.
func AttachWith(ctx context.Context, d driver.Driver, key Key, o AttachOptions) (*Sandbox, error) {
	sb := New(d, Spec{Key: key}, ProvisionOptions{Authority: o.Authority})
	sb.attached = true
	return opened(ctx, sb)
}

func opened(ctx context.Context, sb *Sandbox) (*Sandbox, error) {
	session, err := sb.open(ctx)
	if err != nil {
		return nil, err
	}
	sb.attempt = &attempt{done: closedChan(), session: session}
	return sb, nil
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// New returns a Sandbox that is provisioned by its first use. It does nothing by
// itself: a spec that is wrong is refused at the first use. Concurrent first uses
// share one start, which goes on as long as one of them waits for it; a start that
// failed is not remembered, so the next use tries again. s is copied.
func New(d driver.Driver, s Spec, o ProvisionOptions) *Sandbox {
	return &Sandbox{driver: d, spec: s.Clone(), options: o, ending: make(chan struct{}, 1), sleep: sleep{turn: make(chan struct{}, 1)}}
}

// List returns everything that d knows under our owner label, running or not.
func List(ctx context.Context, d driver.Driver) ([]Owned, error) {
	owned, err := d.Owned(ctx)
	return owned, spec.Wrap(err, "list", d.Name(), "", "")
}

// Reap removes the place that has key and all that was made for it, and returns
// when it is gone. A place that does not exist is no error.
func Reap(ctx context.Context, d driver.Driver, key Key, o ReapOptions) error {
	if err := spec.ValidateKey(key); err != nil {
		return spec.Wrap(err, "reap", d.Name(), "", "")
	}
	return spec.Wrap(d.Reap(ctx, key, o), "reap", d.Name(), "", "")
}

// open asks the driver for a session, once everything that can be refused
// beforehand has been.
func (sb *Sandbox) open(ctx context.Context) (driver.Session, error) {
	op, open := "provision", sb.provision
	if sb.attached {
		op, open = "attach", sb.attach
	}
	session, err := open(ctx)
	if err == nil {
		err = sb.admitOrClose(ctx, session)
	}
	if err != nil {
		return nil, spec.Wrap(err, op, sb.driver.Name(), "", "")
	}
	return session, nil
}

func (sb *Sandbox) attach(ctx context.Context) (driver.Session, error) {
	if err := spec.ValidateKey(sb.spec.Key); err != nil {
		return nil, err
	}
	return sb.driver.Attach(ctx, sb.spec.Key, AttachOptions{Authority: sb.options.Authority})
}

func (sb *Sandbox) provision(ctx context.Context) (driver.Session, error) {
	if err := sb.check(ctx); err != nil {
		return nil, err
	}
	return sb.driver.Provision(ctx, sb.spec.Clone(), sb.options)
}

// check refuses a spec that makes no sense, or cannot be enforced.
func (sb *Sandbox) check(ctx context.Context) error {
	if err := sb.spec.Validate(); err != nil {
		return err
	}
	if sb.spec.Persist {
		if sb.spec.Key == "" {
			return spec.New(spec.CodeInvalid, "persist without a key: nothing could find the place again")
		}
		if _, ok := sb.driver.(driver.Stopper); !ok {
			return spec.New(spec.CodeUnsupported, "persist: places of this backend cannot be stopped and kept")
		}
	}
	caps, err := sb.driver.Probe(ctx)
	if err != nil {
		return err
	}
	return caps.Check(sb.spec)
}

// admitOrClose is admit; it lets go of a session that is not admitted.
func (sb *Sandbox) admitOrClose(ctx context.Context, session driver.Session) error {
	err := sb.admit(session)
	if err != nil && session != nil {
		_ = session.Close(context.WithoutCancel(ctx)) // the refusal is what matters
	}
	return err
}

// admit holds a session against what its driver promised: a place that does not
// enforce what was asked for is never handed out.
func (sb *Sandbox) admit(session driver.Session) error {
	if session == nil {
		return spec.New(spec.CodeInternal, "the driver returned no session and no error")
	}
	caps := session.Caps()
	switch {
	case session.ID() == "":
		return spec.New(spec.CodeInternal, "the driver returned a session without an id")
	case session.Files() == nil:
		return spec.New(spec.CodeInternal, "the driver returned a session without files")
	case caps.Backend != sb.driver.Name():
		return spec.New(spec.CodeInternal, fmt.Sprintf("the driver calls itself %q and its place %q", sb.driver.Name(), caps.Backend))
	case sb.attached:
		return nil
	}
	return caps.Check(sb.spec)
}
