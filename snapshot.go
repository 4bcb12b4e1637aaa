package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// tidyLimit bounds the removal of a snapshot that nobody is to see.
const tidyLimit = 15 * time.Second

// Snapshot keeps the files of the place, for Restore to make others of: its image's, its
// own, and those of its volumes; not its processes and jobs, its environment and secrets,
// and not what is mounted from outside. The place is frozen meanwhile. Files that cannot be
// kept, in memory say, are ErrUnsupported, and a place that somebody has let go on meanwhile,
// as a new client of it does, is ErrUnavailable; nothing is made then. Snapshots of one place
// wait for each other. A Sandbox that never started means the place that has its key, which
// may be stopped.
func (sb *Sandbox) Snapshot(ctx context.Context, o SnapshotOptions) (Snapshot, error) {
	s, err := snapshotter(sb.driver)
	if err != nil {
		return Snapshot{}, sb.wrap(err, "snapshot", "")
	}
	key, err := sb.liveKey(ctx)
	if err != nil {
		return Snapshot{}, sb.wrap(err, "snapshot", "")
	}
	o.Authority = sb.options.Authority
	a, err := sb.announce(ctx, spec.AuditRecord{Kind: spec.AuditSnapshot, Name: o.ID})
	if err != nil {
		return Snapshot{}, sb.wrap(err, "snapshot", "")
	}
	snap, err := s.Snapshot(ctx, key, o)
	a.end(err, func(r *spec.AuditRecord) { r.Name = cmp.Or(snap.ID, o.ID) })
	return snap, sb.wrap(err, "snapshot", "")
}

// Fork makes another place of this one's files, as Snapshot and Restore do, and leaves no
// snapshot. s says everything of it but the image, which does not count.
func (sb *Sandbox) Fork(ctx context.Context, s Spec, o ProvisionOptions) (*Sandbox, error) {
	snap, err := sb.Snapshot(ctx, SnapshotOptions{Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	s.Image, s.Build = "", nil
	forked, err := Restore(ctx, sb.driver, snap.ID, s, o)
	bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	removeErr := RemoveSnapshot(bg, sb.driver, snap.ID, ReapOptions{Authority: sb.options.Authority})
	if err != nil {
		return nil, err
	}
	if removeErr != nil {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
		defer cancel()
		if bg.Err() != nil && errors.Is(removeErr, context.DeadlineExceeded) { // of ours, and not the caller's
			removeErr = sb.wrap(spec.New(spec.CodeUnavailable, fmt.Sprintf("the snapshot %s of the fork was not removed within %v", snap.ID, tidyLimit)), "fork", "")
		}
		return nil, errors.Join(removeErr, forked.Destroy(tidy))
	}
	return forked, nil
}

// Restore makes the place of s of a snapshot. s says everything but the image; without a
// Workdir it has that of the place that was kept. A place that has the key is ErrExists, a
// snapshot that this owner does not have ErrNotFound; what cannot be enforced is refused as
// by Provision. Replace does not count.
//
// Attach finds the place by its key as any other. Provision does too, with the image that
// List says of it and otherwise s; with the image of the first place it is
// ErrSpecMismatch.
func Restore(ctx context.Context, d driver.Driver, id string, s Spec, o ProvisionOptions) (*Sandbox, error) {
	sb := New(d, s, o)
	session, err := sb.restore(ctx, id)
	if err == nil {
		err = sb.admitOrClose(ctx, session)
	}
	if err != nil {
		return nil, spec.Wrap(err, "restore", d.Name(), "", "")
	}
	sb.attempt = &attempt{done: closedChan(), session: session}
	return sb, nil
}

func (sb *Sandbox) restore(ctx context.Context, id string) (driver.Session, error) {
	s, err := snapshotter(sb.driver)
	if err != nil {
		return nil, err
	}
	if sb.spec.Image != "" || sb.spec.Build != nil {
		return nil, spec.New(spec.CodeInvalid, "a restored sandbox has the image of its snapshot, and no other")
	}
	if err := sb.check(ctx); err != nil {
		return nil, err
	}
	return s.Restore(ctx, id, sb.spec.Clone(), sb.options)
}

// Snapshots lists the snapshots that d has of our owner, the oldest first.
func Snapshots(ctx context.Context, d driver.Driver) ([]Snapshot, error) {
	s, err := snapshotter(d)
	if err != nil {
		return nil, spec.Wrap(err, "list snapshots", d.Name(), "", "")
	}
	list, err := s.Snapshots(ctx)
	return list, spec.Wrap(err, "list snapshots", d.Name(), "", "")
}

// RemoveSnapshot removes a snapshot. Places that were made of it stay. One that does not
// exist is no error.
func RemoveSnapshot(ctx context.Context, d driver.Driver, id string, o ReapOptions) error {
	s, err := snapshotter(d)
	if err == nil {
		err = s.RemoveSnapshot(ctx, id, o)
	}
	return spec.Wrap(err, "remove snapshot", d.Name(), "", "")
}

func snapshotter(d driver.Driver) (driver.Snapshotter, error) {
	if s, ok := d.(driver.Snapshotter); ok {
		return s, nil
	}
	return nil, spec.New(spec.CodeUnsupported, "this backend keeps no snapshots")
}
