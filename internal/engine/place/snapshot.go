package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

func (d *Driver) snapshots() *snapshot.Store {
	return &snapshot.Store{Engine: d.engine, Owner: d.options.Owner}
}

// Snapshot implements driver.Snapshotter.
func (d *Driver) Snapshot(ctx context.Context, key spec.Key, o driver.SnapshotOptions) (spec.Snapshot, error) {
	// Two at once would let each other's place go on, and take what the other one has frozen
	// for a suspension. This process asks itself first.
	name := containerName(d.options.Owner, key)
	done, err := d.engine.Turn(ctx, name)
	if err != nil {
		return spec.Snapshot{}, err
	}
	defer done()
	hold, err := d.snapshots().Hold(ctx, o.Authority, name, d.labelled(key))
	if err != nil {
		return spec.Snapshot{}, err
	}
	defer hold.Release(ctx)
	c, err := d.engine.Look(ctx, o.Authority, name, d.labelled(key), "")
	if err == nil {
		err = d.checkOwner(c, key)
	}
	if err != nil {
		return spec.Snapshot{}, err
	}
	if hold.TakenOver && c.State.Status == container.StatePaused {
		c.State.Status = container.StateRunning // as it was before the other one
	}
	src, err := d.source(ctx, o.Authority, key, c)
	if err != nil {
		return spec.Snapshot{}, d.putBack(ctx, c, err)
	}
	thaw, err := d.still(ctx, o.Authority, src, hold)
	if err != nil {
		return spec.Snapshot{}, err
	}
	defer func() { _ = thaw() }() // it was done, or there is an error already
	src.Read = func(ctx context.Context) error {
		return cmp.Or(d.stood(ctx, o.Authority, c), thaw())
	}
	if o.Progress != nil {
		o.Progress(spec.Progress{Step: "snapshot", Message: "keeping the files of " + string(key)})
	}
	return d.snapshots().Take(ctx, o.Authority, src, o.ID)
}

// source describes a place for a snapshot, and refuses one of which none can be taken.
func (d *Driver) source(ctx context.Context, auth driver.Authority, key spec.Key, c *container.InspectResponse) (*snapshot.Source, error) {
	src := &snapshot.Source{Container: c, Key: key, Workdir: c.Config.Labels[labelWorkdir], State: stateDir, Guest: guestDir}
	if names := c.Config.Labels[labelEnv]; names != "" {
		src.Env = strings.Split(names, ",")
	}
	volumes, err := src.Volumes()
	if err != nil {
		return nil, err
	}
	if len(volumes) > 0 && d.engine.VolumesApart {
		packer, err := d.packer(ctx, auth, c)
		if err != nil {
			return nil, err
		}
		src.Volume = packer.Read
	}
	src.User, err = d.identify(ctx, &plan{auth: auth}, c)
	return src, err
}

// packer reads the volumes of a place.
func (d *Driver) packer(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*helper.Packer, error) {
	f, err := d.engine.Known(ctx, auth)
	if err != nil {
		return nil, err
	}
	bin, err := d.binary(ctx, f.Arch, nil)
	if err != nil {
		return nil, err
	}
	if err := d.haveVolume(ctx, &plan{auth: auth, spec: &spec.Spec{Image: c.Image}}, bin); err != nil {
		return nil, err
	}
	return &helper.Packer{Engine: d.engine, Auth: auth, Image: c.Image, Bin: bin, Container: c.ID, Prefix: prepPrefix, Userns: engine.Userns(c)}, nil
}

// still makes sure that nothing in a container runs and that what it keeps in memory can be
// done without, and returns what makes it as it was. CodeUnavailable of that: it is somebody
// else's by now to let go on.
func (d *Driver) still(ctx context.Context, auth driver.Authority, src *snapshot.Source, hold *snapshot.Hold) (thaw func() error, err error) {
	c := src.Container
	switch c.State.Status {
	case container.StateCreated, container.StateExited:
		return func() error { return nil }, nil
	case container.StateRunning, container.StatePaused:
	default:
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("container %s is %s", placeID(c), c.State.Status)}
	}
	session, err := d.claim(ctx, auth, c)
	if err == nil {
		err = src.CheckMemory(ctx, filesOf(session))
	}
	err = d.letGo(session, err)
	found := c.State.Status
	if found == container.StatePaused {
		err = d.putBack(ctx, c, err)
	}
	if err != nil {
		return nil, err
	}
	thaw = sync.OnceValue(func() error {
		bounded, cancel := engine.Cleanup(ctx)
		defer cancel()
		switch {
		case hold.Lost(bounded):
			return meanwhile("another client has suspended it, or begun a snapshot of it")
		case found == container.StatePaused:
			return nil
		}
		// It was this call that froze it: no fence keeps it from being undone.
		return d.engine.Thaw(bounded, driver.Authority{}, c.ID)
	})
	if found == container.StatePaused {
		return thaw, nil
	}
	if err := d.engine.Freeze(ctx, auth, c.ID); err != nil {
		_ = thaw() // what has failed, or was given up, may take effect all the same
		return nil, err
	}
	return thaw, nil
}

// stood reports CodeUnavailable where something may have run in a container that still has
// made sure of.
func (d *Driver) stood(ctx context.Context, auth driver.Authority, c *container.InspectResponse) error {
	want := c.State.Status
	if alive(c) {
		want = container.StatePaused
	}
	now, err := d.engine.Settled(ctx, auth, c.ID, container.StateRunning)
	if err == nil && now != want {
		err = meanwhile("somebody has let it go on, or ended it,")
	}
	return err
}

func meanwhile(what string) error {
	return &spec.Error{Code: spec.CodeUnavailable, Err: errors.New(what + " while the snapshot was taken"), Hint: "try again"}
}

// filesOf are the files of a place whose guest answers, or nil.
func filesOf(session *guest.Session) files.FS {
	if session == nil {
		return nil
	}
	return session.Files()
}

// Restore implements driver.Snapshotter. Without a workdir the place gets that of the
// place that the snapshot is of.
func (d *Driver) Restore(ctx context.Context, id string, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	if s.Image != "" || s.Build != nil {
		return nil, spec.New(spec.CodeInvalid, "a restored place has the image of its snapshot, and no other")
	}
	found, err := d.snapshots().Find(ctx, o.Authority, id)
	if err != nil {
		return nil, err
	}
	s = s.Clone()
	s.Image = found.Reference
	if s.Workdir == "" {
		s.Workdir = found.Workdir
	}
	o.Replace = false
	p, err := d.plan(s, o)
	if err != nil {
		return nil, err
	}
	p.fresh, p.unset = true, found.Unset
	return d.bring(ctx, p)
}

// Snapshots implements driver.Snapshotter.
func (d *Driver) Snapshots(ctx context.Context) ([]spec.Snapshot, error) {
	return d.snapshots().List(ctx)
}

// RemoveSnapshot implements driver.Snapshotter.
func (d *Driver) RemoveSnapshot(ctx context.Context, id string, o driver.ReapOptions) error {
	return d.snapshots().Remove(ctx, o.Authority, id)
}
