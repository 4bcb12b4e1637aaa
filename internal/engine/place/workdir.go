package place

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// prepare makes the writable directories of a container that has not run yet belong
// to its user: an engine would give them to root. Where the user is root there is
// nothing to do, the guest makes its own. A workdir that the image has keeps the owner
// that the image gave it, unless it is a volume of its own.
func (d *Driver) prepare(ctx context.Context, p *plan, c *container.InspectResponse) error {
	if rootUser(c.Config.User) {
		return nil
	}
	if c.HostConfig.ReadonlyRootfs {
		return d.prepareVolumes(ctx, p, c)
	}
	owner, err := d.identify(ctx, p, c)
	if err != nil {
		return err
	}
	members := []member{directory(stateDir, 0o700, owner)}
	switch _, err := d.engine.Stat(ctx, p.auth, c.ID, p.spec.Workdir); spec.CodeOf(err) {
	case spec.CodeFileNotFound:
		members = append(members, directory(p.spec.Workdir, 0o755, owner))
	default:
		if err != nil {
			return err
		}
	}
	archive, err := pack(members...)
	if err != nil {
		return err
	}
	return d.engine.Put(ctx, p.auth, c.ID, "/", archive)
}

// prepareVolumes does it where the root is read-only and the directories are volumes:
// the engine unpacks nothing there, and nothing onto the top of a volume, so it goes
// through a helper that has the same volumes and a root that can be written.
func (d *Driver) prepareVolumes(ctx context.Context, p *plan, c *container.InspectResponse) error {
	owner, err := d.identify(ctx, p, c)
	if err != nil {
		return err
	}
	members := []member{directory("/tmp", 0o1777, identity{})}
	for _, m := range writableMounts(p) {
		if m.Target != "/tmp" {
			members = append(members, directory(m.Target, 0o755, owner))
		}
	}
	archive, err := pack(members...)
	if err != nil {
		return err
	}
	helper := helperOptions(helperName(c.ID), p.spec.Image)
	helper.HostConfig.VolumesFrom = []string{c.ID}
	id, err := d.engine.Create(ctx, p.auth, helper)
	if errors.Is(err, engine.ErrTaken) {
		// Whoever was at it has gone: settle gave it its time.
		if err = d.removeHelper(ctx, p.auth, c.ID); err == nil {
			id, err = d.engine.Create(ctx, p.auth, helper)
		}
	}
	if err != nil {
		return err
	}
	err = d.engine.Put(ctx, p.auth, id, "/", archive)
	bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.CleanupLimit)
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
	if c.Config.Labels[labelHelper] != "true" {
		return &spec.Error{Code: spec.CodeExists, Err: errors.New("container " + placeID(c) + " is not ours")}
	}
	return d.engine.RemoveHelper(ctx, auth, c.ID)
}

// helperName is the name of the helper that prepares a place's volumes.
func helperName(containerID string) string {
	return "berth-prep-" + containerID[:min(len(containerID), 12)]
}

func directory(name string, mode int64, owner identity) member {
	return member{Header: tar.Header{
		Typeflag: tar.TypeDir, Name: strings.TrimPrefix(path.Clean(name), "/") + "/", Mode: mode,
		Uid: owner.uid, Gid: owner.gid, ModTime: time.Now(),
	}}
}

// identity is a user inside a container.
type identity struct{ uid, gid int }

// rootUser reports whether the engine's user setting is root's.
func rootUser(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	id, numeric := numericID(name)
	return name == "" || name == "root" || numeric && id == 0
}

// identify finds the ids of the container's user the way an engine does: numbers are
// themselves, names and a missing group come from the image's /etc/passwd. A user
// whom the image does not know gets zeros; the engine will refuse to start it.
func (d *Driver) identify(ctx context.Context, p *plan, c *container.InspectResponse) (identity, error) {
	name, group, _ := strings.Cut(c.Config.User, ":")
	var id identity
	uid, uidKnown := numericID(name)
	gid, gidKnown := numericID(group)
	id.uid, id.gid = uid, gid
	if !uidKnown || group == "" {
		users, err := d.accounts(ctx, p, c, "/etc/passwd")
		if err != nil {
			return id, err
		}
		// name:password:uid:gid:...
		if f := account(users, name, uidKnown, 4); f != nil {
			id.uid, _ = numericID(f[2])
			if group == "" {
				id.gid, _ = numericID(f[3])
			}
		}
	}
	if group != "" && !gidKnown {
		groups, err := d.accounts(ctx, p, c, "/etc/group")
		if err != nil {
			return id, err
		}
		if f := account(groups, group, false, 3); f != nil {
			id.gid, _ = numericID(f[2])
		}
	}
	return id, nil
}

// accounts reads one of the image's account files; a missing one is empty.
func (d *Driver) accounts(ctx context.Context, p *plan, c *container.InspectResponse, file string) ([]byte, error) {
	data, err := d.engine.Get(ctx, p.auth, c.ID, file)
	if spec.CodeOf(err) == spec.CodeFileNotFound {
		return nil, nil
	}
	return data, err
}

// account returns the fields of the first line that is about who: a name, or the
// number in the third field. Lines with fewer fields than need be are passed over.
func account(file []byte, who string, byNumber bool, need int) []string {
	for line := range bytes.Lines(file) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) >= need && (byNumber && f[2] == who || !byNumber && f[0] == who) {
			return f
		}
	}
	return nil
}
