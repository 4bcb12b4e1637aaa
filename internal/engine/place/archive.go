package place

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// ReadArchive implements driver.Archiver.
func (d *Driver) ReadArchive(ctx context.Context, key spec.Key, dir string, o driver.ReapOptions, read func(io.Reader) error) error {
	id, _, err := d.suspended(ctx, o.Authority, key)
	if err != nil {
		return err
	}
	if id != "" {
		return &spec.Error{Code: spec.CodeUnavailable, Err: errSuspended, Hint: "`berth resume` lets it go on"}
	}
	c, err := d.find(ctx, o.Authority, key)
	if err != nil {
		return err
	}
	if !path.IsAbs(dir) {
		dir = path.Join(c.Config.Labels[labelWorkdir], dir)
	}
	dir = path.Clean(dir)
	st, err := d.engine.Stat(ctx, o.Authority, c.ID, dir)
	if err == nil && st.Mode&fs.ModeSymlink != 0 {
		dir = path.Clean("/" + st.LinkTarget) // as the engine has resolved it, inside
		st, err = d.engine.Stat(ctx, o.Authority, c.ID, dir)
	}
	if err == nil && !st.Mode.IsDir() {
		err = &spec.Error{Code: spec.CodeNotDirectory, Path: dir}
	}
	if err == nil && d.engine.VolumesApart {
		err = nothingBelow(c, dir)
	}
	if err != nil {
		return err
	}
	return d.engine.Open(ctx, o.Authority, c.ID, dir, func(_ context.Context, archive io.Reader) error { return read(archive) })
}

// nothingBelow refuses a directory below which something is mounted, for an engine that would
// leave it out.
func nothingBelow(c *container.InspectResponse, dir string) error {
	for _, m := range c.Mounts {
		if m.Destination != dir && m.Destination != guestDir && m.Destination != directDir && mounts.Within(m.Destination, dir) {
			return &spec.Error{Code: spec.CodeUnsupported, Path: dir, Err: fmt.Errorf("%s is mounted below it, which the engine's archive leaves out", m.Destination), Hint: "export that, or what is beside it; or start the sandbox, whose guest sees all of it"}
		}
	}
	return nil
}
