package place

import (
	"context"
	"errors"
	"strings"
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
// made it, or a start will fail and lead to mend.
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
			if _, err := d.filler(p, bin).Fill(ctx); err != nil {
				return err
			}
		}
		d.mu.Lock()
		d.volumes[volume] = true
		d.mu.Unlock()
	}
	return nil
}

// mend puts the guest into its volume after a place failed to start, unless it is there whole,
// and tries again if there is any reason to. Meanwhile a container of its own has the volume,
// so that once is enough, however often somebody prunes.
func (d *Driver) mend(ctx context.Context, p *plan, failed error) (*guest.Session, error) {
	f, err := d.engine.Known(ctx, p.auth)
	if err != nil {
		return nil, err
	}
	bin, err := d.binary(ctx, f.Arch, p.progress)
	if err != nil {
		return nil, err
	}
	if g, ok := errors.AsType[*guestError](failed); ok && g.version != helper.GuestVersion(bin) {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: g.err, Hint: "the sandbox has another guest than this program brings: replace it"}
	}
	filler := d.filler(p, bin)
	release, err := filler.Hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	filled, err := filler.Fill(ctx)
	if err != nil {
		return nil, err
	}
	session, err := (*guest.Session)(nil), failed
	// One that failed for want of the guest may find that somebody else has put it there.
	if filled || strings.Contains(failed.Error(), guestDir) {
		session, err = d.provision(ctx, p)
	}
	if err != nil && p.created != "" && p.refused(err) {
		session, err = d.startRelayed(ctx, p)
	}
	return session, err
}

func (d *Driver) filler(p *plan, bin guest.Bin) *helper.Filler {
	return &helper.Filler{Engine: d.engine, Auth: p.auth, Image: p.spec.Image, Bin: bin}
}
