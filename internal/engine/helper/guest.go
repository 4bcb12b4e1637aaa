package helper

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/mount"
)

const (
	// GuestDir is where a place has the guest's volume, GuestPath the guest itself.
	GuestDir  = "/.berth"
	guestFile = "berth-guest"
	GuestPath = GuestDir + "/" + guestFile
	// DirectName is a directory in the volume, on which another one can be mounted.
	DirectName = "direct"
	// GuestPrefix begins the names of the volumes that hold a guest, which LabelGuest marks.
	GuestPrefix = "berth-guest-"
	LabelGuest  = "dev.berth.guest"

	// fillLimit bounds the wait for somebody else who fills the volume, takeOver that for
	// a sign of life of theirs, which is looked for every lookEvery.
	fillLimit = 90 * time.Second
	takeOver  = 4 * time.Second
	lookEvery = 100 * time.Millisecond
)

// GuestVersion names a guest in labels and names: 12 hex digits of its hash.
func GuestVersion(bin guest.Bin) string { return bin.Hash[:min(len(bin.Hash), 12)] }

// GuestVolume is the volume of one guest version, and the container that fills it.
func GuestVolume(bin guest.Bin) string { return GuestPrefix + GuestVersion(bin) }

// GuestMount mounts the guest's volume; mounting creates it where there is none.
func GuestMount(bin guest.Bin, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: GuestVolume(bin), Target: GuestDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{LabelGuest: GuestVersion(bin)}},
	}
}

// Filler puts a guest into its volume.
type Filler struct {
	Engine *engine.Engine
	Auth   driver.Authority
	Image  string // some image that the engine has
	Bin    guest.Bin
}

// Fill puts the guest into its volume, unless it is there whole. The helper's name is the
// volume's, so that of several fillers one works and the others wait for it, or take over
// from one that shows no sign of life: its client has died, or is so slow that it finds its
// helper gone and begins again. It reports whether it changed something or had to wait.
func (f *Filler) Fill(ctx context.Context) (bool, error) {
	name, waited := GuestVolume(f.Bin), false
	// Before the mount does: not every engine gives a mount's labels to its volume.
	if err := f.Engine.VolumeCreate(ctx, f.Auth, name, map[string]string{LabelGuest: GuestVersion(f.Bin)}); err != nil {
		return false, err
	}
	var other engine.Vigil
	for deadline := time.Now().Add(fillLimit); ; {
		id, err := f.Engine.Create(ctx, f.Auth, Options(name, f.Image, GuestMount(f.Bin, false)))
		if err == nil {
			filled, err := f.through(ctx, id)
			if !errors.Is(err, errTakenOver) {
				return filled || waited, err
			}
		} else if !errors.Is(err, engine.ErrTaken) {
			return false, err
		}
		waited = true
		dead, err := f.look(ctx, name, &other)
		if err == nil && dead {
			err = f.Engine.Remove(ctx, f.Auth, other.ID)
		}
		if err != nil {
			return false, err
		}
		if time.Now().After(deadline) {
			return false, spec.New(spec.CodeUnavailable, fmt.Sprintf("container %s is in the way", name))
		}
		if err := engine.Pause(ctx, lookEvery); err != nil {
			return false, err
		}
	}
}

// Hold keeps the guest's volume from those who remove what no container has: a helper has it
// until release is called. Where there is no such volume there is an empty one then.
func (f *Filler) Hold(ctx context.Context) (release func(), err error) {
	// Before the mount does: not every engine gives a mount's labels to its volume.
	if err := f.Engine.VolumeCreate(ctx, f.Auth, GuestVolume(f.Bin), map[string]string{LabelGuest: GuestVersion(f.Bin)}); err != nil {
		return nil, err
	}
	id, err := f.Engine.Create(ctx, f.Auth, Options("berth-hold-"+rand.Text(), f.Image, GuestMount(f.Bin, true)))
	if err != nil {
		return nil, err
	}
	return func() {
		bg, cancel := engine.Cleanup(ctx)
		defer cancel()
		_ = f.Engine.Remove(bg, f.Auth, id) // or a prune does
	}, nil
}

// look reports whether the helper of a name has shown no sign of life for too long: it is
// the same one, and what is in the volume has not grown. Nor does it seem dead where the
// engine does not say, as one may not while it unpacks what it is sent.
func (f *Filler) look(ctx context.Context, name string, seen *engine.Vigil) (dead bool, _ error) {
	return seen.Dead(ctx, takeOver, takeOver, func(ctx context.Context) (id, sign string, err error) {
		c, err := f.Engine.Inspect(ctx, f.Auth, name)
		if err != nil {
			return "", "", err
		}
		if c.Config.Labels[Label] != "true" {
			return "", "", &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("container %s is not ours", name)}
		}
		size, err := f.size(ctx, c.ID)
		return c.ID, strconv.FormatInt(size, 10), err
	})
}

// size is how much of the guest there is in the volume of a helper; -1: nothing.
func (f *Filler) size(ctx context.Context, id string) (int64, error) {
	st, err := f.Engine.Stat(ctx, f.Auth, id, GuestPath)
	switch {
	case spec.CodeOf(err) == spec.CodeFileNotFound, err == nil && !st.Mode.IsRegular():
		return -1, nil
	case err != nil:
		return 0, err
	}
	return st.Size, nil
}

// errTakenOver says that somebody has removed the helper.
var errTakenOver = errors.New("another client has taken over")

// through fills the volume that is mounted in the helper id, unless it is complete, and
// removes the helper.
func (f *Filler) through(ctx context.Context, id string) (filled bool, err error) {
	defer func() {
		bg, cancel := engine.Cleanup(ctx)
		defer cancel()
		err = cmp.Or(err, f.Engine.Remove(bg, f.Auth, id))
	}()
	size, err := f.size(ctx, id)
	if err == nil && size == f.Bin.Size {
		return false, nil
	}
	var archive []byte
	if err == nil {
		archive, err = guestArchive(f.Bin)
	}
	if err == nil {
		err = f.Engine.Put(ctx, f.Auth, id, GuestDir, archive)
	}
	if err == nil {
		return true, nil
	}
	if _, there := f.Engine.State(ctx, f.Auth, id); spec.CodeOf(there) == spec.CodeNotFound {
		return false, errTakenOver
	}
	return false, err
}

// guestArchive packs the guest binary. It is read whole and checked first: the volume is
// shared under the hash's name.
func guestArchive(bin guest.Bin) ([]byte, error) {
	data, err := os.ReadFile(bin.Path)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("guest binary: %w", err)}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != bin.Hash {
		return nil, spec.New(spec.CodeUnavailable, "the guest binary has changed since it was found")
	}
	return Pack(
		Member{Header: tar.Header{Typeflag: tar.TypeReg, Name: guestFile, Mode: 0o555}, Data: data},
		Member{Header: tar.Header{Typeflag: tar.TypeDir, Name: DirectName + "/", Mode: 0o755}}, // a read-only volume gets no new one
	)
}
