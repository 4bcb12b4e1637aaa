package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

func (d *Driver) snapshots() *snapshot.Store {
	return &snapshot.Store{Engine: d.engine, Owner: d.options.Owner}
}

// Snapshot implements driver.Snapshotter.
func (d *Driver) Snapshot(ctx context.Context, key spec.Key, o driver.SnapshotOptions) (spec.Snapshot, error) {
	c, err := d.find(ctx, o.Authority, key)
	if err != nil {
		return spec.Snapshot{}, err
	}
	src := &snapshot.Source{Container: c, Key: key, Workdir: c.Config.Labels[labelWorkdir], State: stateDir, Guest: guestDir}
	if names := c.Config.Labels[labelEnv]; names != "" {
		src.Env = strings.Split(names, ",")
	}
	volumes, err := src.Volumes()
	if err != nil {
		return spec.Snapshot{}, err
	}
	if len(volumes) > 0 && d.engine.VolumesApart {
		return spec.Snapshot{}, &spec.Error{Code: spec.CodeUnsupported, Path: volumes[0], Err: errors.New("it is a volume, which " + d.engine.Title + " gives back to whatever is made of the image, without its files")}
	}
	if src.User, err = d.identify(ctx, &plan{auth: o.Authority}, c); err != nil {
		return spec.Snapshot{}, err
	}
	thaw, err := d.still(ctx, o.Authority, src)
	if err != nil {
		return spec.Snapshot{}, err
	}
	if o.Progress != nil {
		o.Progress(spec.Progress{Step: "snapshot", Message: "keeping the files of " + string(key)})
	}
	snap, err := d.snapshots().Take(ctx, o.Authority, src, o.ID)
	if thawErr := thaw(); err == nil {
		err = thawErr
	}
	return snap, err
}

// still makes sure that nothing in a container runs and that what it keeps in memory can be
// done without, and returns what makes it as it was.
func (d *Driver) still(ctx context.Context, auth driver.Authority, src *snapshot.Source) (thaw func() error, err error) {
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
		err = keptInMemory(ctx, session, src)
	}
	err = d.letGo(session, err)
	found := c.State.Status
	if err != nil && found == container.StateRunning {
		return nil, err
	}
	bg := context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(bg, engine.CleanupLimit)
	defer cancel()
	if err = cmp.Or(err, d.engine.Freeze(bounded, auth, c.ID)); err != nil {
		return nil, err
	}
	return func() error {
		if found == container.StatePaused {
			return nil
		}
		bounded, cancel := context.WithTimeout(bg, engine.CleanupLimit)
		defer cancel()
		// It was this call that froze it: no fence keeps it from being undone.
		return d.engine.Thaw(bounded, driver.Authority{}, c.ID)
	}, nil
}

// keptInMemory refuses a container that has files in memory, which no image can have. Those
// of its guest do not count.
func keptInMemory(ctx context.Context, session *guest.Session, src *snapshot.Source) error {
	for _, dir := range src.Memory() {
		if session == nil {
			return &spec.Error{Code: spec.CodeUnsupported, Path: dir, Err: errors.New("it is in memory, and the place does not say whether anything is in it")}
		}
		for _, err := range files.Names(ctx, session.Files(), dir, files.NamesOptions{}) {
			if err != nil {
				return err
			}
			return &spec.Error{Code: spec.CodeUnsupported, Path: dir, Err: errors.New("what is in it is in memory, which no snapshot keeps"), Hint: "empty it, or move what is needed"}
		}
	}
	return nil
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
