package place

import (
	"cmp"
	"context"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/engine/leftover"
	"github.com/berth-dev/berth/spec"
)

func (d *Driver) pruner() *leftover.Pruner {
	return &leftover.Pruner{
		Engine: d.engine, Images: d.images, Owner: d.options.Owner, Place: d.ours, HelperPrefix: namePrefix, BorrowerPrefix: prepPrefix, GuestPrefix: helper.GuestPrefix, Young: staleHelper,
		Labels: leftover.Labels{Owner: labelOwner, Ephemeral: labelEphemeral, Helper: helper.Label, Guest: labelGuest},
	}
}

// Prune implements driver.Pruner.
func (d *Driver) Prune(ctx context.Context, o driver.ReapOptions) (spec.Pruned, error) {
	done, err := d.pruner().Prune(ctx, o.Authority)
	err = cmp.Or(err, d.direct.Prune(ctx, o.Authority, staleHelper))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range done.Volumes {
		delete(d.volumes, name)
	}
	return done, err
}
