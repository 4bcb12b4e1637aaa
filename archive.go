package berth

import (
	"context"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
)

// ExportStopped is Sandbox.Export for the place that has key and does not run, which it does
// not start. Nothing can be excluded.
func ExportStopped(ctx context.Context, d driver.Driver, key Key, dir string, w io.Writer, o tree.ExportOptions, reap ReapOptions) (tree.Stats, error) {
	var stats tree.Stats
	a, ok := d.(driver.Archiver)
	err := spec.ValidateKey(key)
	switch {
	case err != nil:
	case !ok:
		err = spec.New(spec.CodeUnsupported, "places of this backend are read while they run")
	default:
		err = a.ReadArchive(ctx, key, dir, reap, func(r io.Reader) (err error) {
			stats, err = tree.FromContainer(ctx, r, w, o)
			return err
		})
	}
	return stats, spec.Wrap(err, "export", d.Name(), "", dir)
}
