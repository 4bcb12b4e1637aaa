package place

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// prepare makes the writable directories of a container that has not run yet belong
// to its user: an engine would give them to root. A root that has its rights makes its
// own. A workdir that the image has keeps the owner
// that the image gave it, unless it is a volume of its own.
func (d *Driver) prepare(ctx context.Context, p *plan, c *container.InspectResponse) error {
	if servesItself(p, c) {
		return nil
	}
	if c.HostConfig.ReadonlyRootfs {
		return d.prepareVolumes(ctx, p, c)
	}
	owner, err := d.identify(ctx, p, c)
	if err != nil {
		return err
	}
	members := []helper.Member{helper.Directory(stateDir, 0o700, owner)}
	_, err = d.engine.Stat(ctx, p.auth, c.ID, p.spec.Workdir)
	switch {
	case spec.CodeOf(err) == spec.CodeFileNotFound, err == nil && holdsMount(p.spec):
		members = append(members, helper.Directory(p.spec.Workdir, 0o755, owner))
	case err != nil:
		return err
	}
	archive, err := helper.Pack(members...)
	if err != nil {
		return err
	}
	return d.engine.Put(ctx, p.auth, c.ID, "/", archive)
}

// holdsMount reports whether something is mounted below the workdir: looking for it, the
// engine has made the workdir for root by now, if the image has none.
func holdsMount(s *spec.Spec) bool {
	return s.Workdir != "/" && !mounts.Covered(s.Mounts, s.Workdir) &&
		slices.ContainsFunc(s.Mounts, func(m spec.Mount) bool { return mounts.Within(m.Target, s.Workdir) })
}

// prepareVolumes does it where the root is read-only and the directories are volumes:
// the engine unpacks nothing there, and nothing onto the top of a volume, so it goes
// through a helper that has the same volumes and a root that can be written.
func (d *Driver) prepareVolumes(ctx context.Context, p *plan, c *container.InspectResponse) error {
	owner, err := d.identify(ctx, p, c)
	if err != nil {
		return err
	}
	var members []helper.Member
	for _, m := range writableMounts(p) {
		if m.Target == "/tmp" {
			members = append(members, helper.Directory("/tmp", 0o1777, account.User{}))
			continue
		}
		members = append(members, helper.Directory(m.Target, 0o755, owner))
	}
	archive, err := helper.Pack(members...)
	if err != nil {
		return err
	}
	o := helper.Options(helperName(c.ID), c.Image)
	o.HostConfig.VolumesFrom, o.HostConfig.UsernsMode = []string{c.ID}, engine.Userns(c)
	id, err := d.engine.Create(ctx, p.auth, o)
	if errors.Is(err, engine.ErrTaken) {
		// Whoever was at it has gone: settle gave it its time.
		if err = d.removeHelper(ctx, p.auth, c.ID); err == nil {
			id, err = d.engine.Create(ctx, p.auth, o)
		}
	}
	if err != nil {
		if _, gone := d.engine.State(ctx, p.auth, c.ID); spec.CodeOf(gone) == spec.CodeNotFound {
			return errMoved
		}
		return err
	}
	err = d.engine.Put(ctx, p.auth, id, "/", archive)
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	return cmp.Or(err, d.engine.RemoveHelper(bg, p.auth, id))
}

// removeHelper removes the helper of a container, if there is one of ours.
func (d *Driver) removeHelper(ctx context.Context, auth driver.Authority, containerID string) error {
	c, err := d.engine.Inspect(ctx, auth, helperName(containerID))
	if spec.CodeOf(err) == spec.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if c.Config.Labels[helper.Label] != "true" {
		return &spec.Error{Code: spec.CodeExists, Err: errors.New("container " + placeID(c) + " is not ours")}
	}
	return d.engine.RemoveHelper(ctx, auth, c.ID)
}

// prepPrefix begins the names of helpers that have the volumes of a place.
const prepPrefix = namePrefix + "prep-"

// helperName is the name of the helper that prepares a place's volumes.
func helperName(containerID string) string {
	return prepPrefix + containerID[:min(len(containerID), 12)]
}

// servesItself reports whether the guest can make the directories. Without the right to
// pass over permissions root needs those of an owner, and the top of an image may be
// writable for nobody.
func servesItself(p *plan, c *container.InspectResponse) bool {
	drop := p.spec.Hardening.DropCaps
	bare := slices.Contains(drop, "ALL") || slices.Contains(drop, "DAC_OVERRIDE")
	return account.IsRoot(c.Config.User) && (!bare || c.HostConfig.ReadonlyRootfs)
}

// identify finds out who the container's user is.
func (d *Driver) identify(ctx context.Context, p *plan, c *container.InspectResponse) (account.User, error) {
	return account.Find(c.Config.User, func(file string) ([]byte, error) {
		data, err := d.engine.Get(ctx, p.auth, c.ID, file)
		if spec.CodeOf(err) == spec.CodeFileNotFound {
			return nil, nil
		}
		return data, err
	})
}
