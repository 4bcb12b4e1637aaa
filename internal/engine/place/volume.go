package place

import (
	"context"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/spec"
)

const (
	guestDir  = helper.GuestDir
	guestPath = helper.GuestPath
	// directDir is where a place has the directory of package direct.
	directDir = guestDir + "/" + helper.DirectName

	// staleHelper is the age at which a helper container belongs to nobody: what
	// it is for takes a second.
	staleHelper = time.Minute
)

// guestError is a place that was started and whose guest did not come up: the one
// failure that a bad guest volume explains.
type guestError struct {
	err     error
	version string // of the guest that the container has
}

func (e *guestError) Error() string { return e.err.Error() }
func (e *guestError) Unwrap() error { return e.err }

// haveVolume makes sure that the guest's volume exists, filled as far as anyone
// can tell without looking inside: a volume that exists has been filled by whoever
// made it, or a start will fail and lead to fillVolume.
func (d *Driver) haveVolume(ctx context.Context, p *plan, bin guest.Bin) error {
	volume := helper.GuestVolume(bin)
	d.mu.Lock()
	have := d.volumes[volume]
	d.mu.Unlock()
	if !have {
		exists, err := d.engine.VolumeExists(ctx, p.auth, volume)
		if err != nil {
			return err
		}
		if !exists {
			if _, err := d.fill(ctx, p, bin); err != nil {
				return err
			}
		}
		d.mu.Lock()
		d.volumes[volume] = true
		d.mu.Unlock()
	}
	return nil
}

// fillVolume looks into the guest's volume after a place failed to start, and puts
// the guest there if it is missing or was cut short. It reports whether there is
// any reason to try again.
func (d *Driver) fillVolume(ctx context.Context, p *plan, failed *guestError) (bool, error) {
	f, err := d.engine.Known(ctx, p.auth)
	if err != nil {
		return false, err
	}
	bin, err := d.binary(ctx, f.Arch, p.progress)
	if err != nil {
		return false, err
	}
	if failed.version != helper.GuestVersion(bin) {
		return false, &spec.Error{Code: spec.CodeUnavailable, Err: failed.err, Hint: "the sandbox has another guest than this program brings: replace it"}
	}
	return d.fill(ctx, p, bin)
}

// fill puts the guest into its volume. It reports whether it changed something or had to
// wait for somebody else who did.
func (d *Driver) fill(ctx context.Context, p *plan, bin guest.Bin) (bool, error) {
	return (&helper.Filler{Engine: d.engine, Auth: p.auth, Image: p.spec.Image, Bin: bin}).Fill(ctx)
}
