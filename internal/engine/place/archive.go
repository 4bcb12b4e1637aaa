package place

import (
	"context"
	"io"
	"io/fs"
	"path"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// ReadArchive implements driver.Archiver.
func (d *Driver) ReadArchive(ctx context.Context, key spec.Key, dir string, o driver.ReapOptions, read func(io.Reader) error) error {
	id, err := d.suspended(ctx, o.Authority, key)
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
	if c.HostConfig.ReadonlyRootfs && d.engine.VolumesApart {
		return spec.New(spec.CodeUnsupported, "its files are in volumes, of which "+d.engine.Title+" gives no archive")
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
	if err != nil {
		return err
	}
	return d.engine.Open(ctx, o.Authority, c.ID, dir, func(_ context.Context, archive io.Reader) error { return read(archive) })
}
