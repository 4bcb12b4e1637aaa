package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

const (
	// longestPause is the last of the pauses, each twice the one before, after which
	// Provision starts over because a container of the name appeared or went away: some
	// twelve seconds in all, as a name may be taken long before there is a container.
	longestPause = engine.PollEvery << 7
	// listenLimit bounds the wait for a started guest.
	listenLimit = 10 * time.Second
	// settleLimit is how long a container that somebody else created is left to
	// them to prepare and start.
	settleLimit = 3 * time.Second
)

// errMoved says that the container under the name is another one now, or none.
var errMoved = errors.New("the container keeps changing")

// provision finds or creates the container, brings it to life and connects.
func (d *Driver) provision(ctx context.Context, p *plan) (*guest.Session, error) {
	var err error
	for pause := engine.PollEvery; ; pause *= 2 {
		var c *container.InspectResponse
		c, err = d.look(ctx, p.auth, p.spec.Key)
		switch {
		case spec.CodeOf(err) == spec.CodeNotFound:
			c, err = d.createFrom(ctx, p)
		case err == nil && p.fresh && c.ID != p.created:
			err = d.putBack(ctx, c, &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("there is a sandbox with the key %q", p.spec.Key), Hint: "restore to another key, or remove it before"})
		}
		if err == nil {
			var session *guest.Session
			if session, err = d.adopt(ctx, p, c); err == nil {
				p.found = c
				return session, nil
			}
		}
		switch {
		case !errors.Is(err, errMoved) && !errors.Is(err, engine.ErrTaken):
			return nil, err
		case pause > longestPause:
			return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("container %s: %w", p.name, err)}
		}
		if err := engine.Pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// create creates the container and reads back what it has become.
func (d *Driver) create(ctx context.Context, p *plan) (*container.InspectResponse, error) {
	f, err := d.engine.Known(ctx, p.auth)
	if err != nil {
		return nil, err
	}
	if err := checkOffers(p, f.Offers); err != nil {
		return nil, err
	}
	if err := d.haveNetwork(ctx, p); err != nil {
		return nil, err
	}
	bin, err := d.binary(ctx, f.Arch, p.progress)
	if err != nil {
		return nil, err
	}
	if err := d.haveVolume(ctx, p, bin); err != nil {
		return nil, err
	}
	if err := d.haveSources(ctx, p); err != nil {
		return nil, err
	}
	if !d.engine.Libpod { // which gives a mount's labels to no volume
		if p.declared, err = d.images.Volumes(ctx, p.auth, p.spec.Image); err != nil {
			return nil, err
		}
	}
	id, err := d.createContainer(ctx, p, bin, f.CPUs)
	if err != nil {
		return nil, badMount(p, err)
	}
	p.created = id
	c, err := d.engine.Inspect(ctx, p.auth, id)
	if err == nil {
		err = d.verify(ctx, p, c)
	}
	if err != nil && spec.CodeOf(err) != spec.CodeNotFound {
		bg, cancel := engine.Cleanup(ctx)
		defer cancel()
		defer d.forget(bg, p)
		return nil, cmp.Or(err, d.engine.Remove(bg, p.auth, id))
	}
	if err != nil {
		return nil, errMoved
	}
	return c, nil
}

// adopt makes the checks that everybody makes - who created the container, whoever
// lost the race to create it, whoever comes later - and brings it to a session.
func (d *Driver) adopt(ctx context.Context, p *plan, c *container.InspectResponse) (*guest.Session, error) {
	if err := d.checkOwner(c, p.spec.Key); err != nil {
		return nil, err
	}
	if err := checkSpec(p, c); err != nil {
		if !p.replace {
			return nil, d.putBack(ctx, c, err)
		}
		if err := d.end(ctx, p.auth, c); err != nil {
			return nil, err
		}
		return nil, errMoved
	}
	if err := d.verify(ctx, p, c); err != nil {
		return nil, d.putBack(ctx, c, err)
	}
	switch c.State.Status {
	case container.StateRunning, container.StatePaused:
		session, err := d.connect(ctx, p.auth, c)
		if spec.CodeOf(err) == spec.CodeNotFound {
			return nil, errMoved // it ended or went away between two requests
		}
		return session, err
	case container.StateCreated:
		if c.ID != p.created && !d.settle(ctx, p, c) {
			return nil, errMoved
		}
		if err := d.prepare(ctx, p, c); err != nil {
			return nil, err
		}
		return d.start(ctx, p, c)
	case container.StateExited:
		return d.start(ctx, p, c)
	case container.StateRemoving:
		if err := d.engine.WaitGone(ctx, p.auth, c); err != nil {
			return nil, err
		}
		return nil, errMoved
	}
	return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("container %s is %s", placeID(c), c.State.Status), Hint: "end it and provision it again"}
}

// settle leaves a container that somebody else has just created to them, for a
// moment. It reports whether it is still as it was: then they are gone, and what is
// left to do falls to the caller. Where nothing is to be prepared nobody waits:
// starting twice is starting once.
func (d *Driver) settle(ctx context.Context, p *plan, c *container.InspectResponse) bool {
	if servesItself(p, c) {
		return true
	}
	for deadline := time.Now().Add(settleLimit); time.Now().Before(deadline); {
		now, err := d.engine.Inspect(ctx, p.auth, c.ID)
		if err != nil || now.State.Status != container.StateCreated {
			return false
		}
		if engine.Pause(ctx, engine.PollEvery) != nil {
			return false
		}
	}
	return true
}

// start starts the container and connects. A start that fails, or a guest that does
// not come up, is a *guestError.
func (d *Driver) start(ctx context.Context, p *plan, c *container.InspectResponse) (*guest.Session, error) {
	_ = d.direct.Ensure(d.direct.Of(c)) // the engine will say what is wrong
	w := d.engine.Watch(ctx, p.auth, c.ID)
	defer w.Close()
	err := d.engine.Start(ctx, p.auth, c.ID)
	switch spec.CodeOf(err) {
	case "":
		if err != nil {
			return nil, err
		}
	case spec.CodeNotFound:
		return nil, errMoved
	case spec.CodeInvalid, spec.CodeUnavailable:
		// The engine says 400 for a program that is missing, 500 for others.
		return nil, d.unborn(c, err)
	default:
		return nil, err
	}
	if now, err := d.engine.Inspect(ctx, p.auth, c.ID); err == nil {
		c.State.Pid = now.State.Pid
	}
	// A started container is one whose program was started: a relay that comes
	// before the guest listens is turned away, and comes again.
	for deadline := time.Now().Add(listenLimit); ; {
		session, err := d.open(ctx, p.auth, c)
		code := spec.CodeOf(err)
		switch {
		case code != spec.CodeNotFound && code != spec.CodeUnavailable:
			return session, err
		case code == spec.CodeNotFound || time.Now().After(deadline):
			return nil, d.unborn(c, d.died(ctx, p, c, w, err))
		}
		if err := engine.Pause(ctx, engine.PollEvery); err != nil {
			return nil, err
		}
	}
}

func (d *Driver) unborn(c *container.InspectResponse, err error) error {
	out := &spec.Error{Code: spec.CodeUnavailable, Err: err, Hint: spec.HintOf(err)}
	if answer, ok := err.(*spec.Error); ok { //nolint:errorlint // its code would stand there beside this one
		out.Err = answer.Err
	}
	return &guestError{err: out, version: c.Config.Labels[labelGuest]}
}

// died adds to err how the guest ended and what it said.
func (d *Driver) died(ctx context.Context, p *plan, c *container.InspectResponse, w *engine.Witness, err error) error {
	text := w.Said()
	if now, e := d.engine.Inspect(ctx, p.auth, c.ID); e == nil && !now.State.Running {
		how := fmt.Sprintf("exit status %d", now.State.ExitCode)
		if now.State.OOMKilled {
			how = "out of memory"
		}
		err = fmt.Errorf("the guest ended at its start: %s", how)
	}
	if text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if strings.Contains(text, "workdir: ") {
		return &spec.Error{Err: err, Hint: "the workdir has to be a directory of the image, or one that can be made there: choose another (--workdir)"}
	}
	return err
}
