package place

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

const (
	guestDir  = "/.berth"
	guestFile = "berth-guest"
	guestPath = guestDir + "/" + guestFile
	// guestPrefix begins the names of the volumes that hold a guest.
	guestPrefix = "berth-guest-"

	// staleHelper is the age at which a helper container belongs to nobody: what
	// it is for takes a second.
	staleHelper = time.Minute
	// fillLimit bounds the wait for somebody else who fills the volume.
	fillLimit = 90 * time.Second
)

// guestVersion names a guest in labels and names: 12 hex digits of its hash.
func guestVersion(bin guest.Bin) string { return bin.Hash[:min(len(bin.Hash), 12)] }

// guestVolume is the volume of one guest version, and the container that fills it.
func guestVolume(bin guest.Bin) string { return guestPrefix + guestVersion(bin) }

// guestMount mounts the guest's volume; mounting creates it where there is none.
func guestMount(bin guest.Bin, readOnly bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeVolume, Source: guestVolume(bin), Target: guestDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{labelGuest: guestVersion(bin)}},
	}
}

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
	volume := guestVolume(bin)
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
	if failed.version != guestVersion(bin) {
		return false, &spec.Error{Code: spec.CodeUnavailable, Err: failed.err, Hint: "the sandbox has another guest than this program brings: replace it"}
	}
	return d.fill(ctx, p, bin)
}

// fill puts the guest into its volume through a container that never runs. The
// container's name is the volume's, so that of several fillers one works and the
// others wait for it. It reports whether it changed something or had to wait.
func (d *Driver) fill(ctx context.Context, p *plan, bin guest.Bin) (bool, error) {
	name, waited := guestVolume(bin), false
	// Before the mount does: not every engine gives a mount's labels to its volume.
	if err := d.engine.VolumeCreate(ctx, p.auth, name, map[string]string{labelGuest: guestVersion(bin)}); err != nil {
		return false, err
	}
	for deadline := time.Now().Add(fillLimit); ; {
		id, err := d.engine.Create(ctx, p.auth, helperOptions(name, p.spec.Image, guestMount(bin, false)))
		if err == nil {
			filled, err := d.fillThrough(ctx, p, id, bin)
			return filled || waited, err
		}
		if !errors.Is(err, engine.ErrTaken) {
			return false, err
		}
		waited = true
		if err := d.clearStale(ctx, p, name); err != nil {
			return false, err
		}
		if time.Now().After(deadline) {
			return false, spec.New(spec.CodeUnavailable, fmt.Sprintf("container %s is in the way", name))
		}
		if err := engine.Pause(ctx, engine.PollEvery); err != nil {
			return false, err
		}
	}
}

// helperOptions describe a container that never runs: a way into its mounts.
func helperOptions(name, image string, mounts ...mount.Mount) client.ContainerCreateOptions {
	return client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{
			Image: image, Entrypoint: []string{guestPath}, Cmd: []string{}, WorkingDir: "/",
			Labels: map[string]string{labelHelper: "true"},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none", Mounts: mounts},
	}
}

// clearStale removes the helper of this name if whoever made it has gone.
func (d *Driver) clearStale(ctx context.Context, p *plan, name string) error {
	c, err := d.engine.Inspect(ctx, p.auth, name)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return nil
	case err != nil:
		return err
	case c.Config.Labels[labelHelper] != "true":
		return &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("container %s is not ours", name)}
	}
	created, err := time.Parse(time.RFC3339Nano, c.Created)
	if err == nil && time.Since(created) < staleHelper {
		return nil
	}
	return d.engine.Remove(ctx, p.auth, c.ID)
}

// fillThrough fills the volume that is mounted in the helper id, unless it is
// complete, and removes the helper.
func (d *Driver) fillThrough(ctx context.Context, p *plan, id string, bin guest.Bin) (filled bool, err error) {
	defer func() {
		bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.CleanupLimit)
		defer cancel()
		err = cmp.Or(err, d.engine.Remove(bg, p.auth, id))
	}()
	st, err := d.engine.Stat(ctx, p.auth, id, guestPath)
	if err == nil && st.Size == bin.Size && st.Mode.IsRegular() {
		return false, nil
	}
	if err != nil && spec.CodeOf(err) != spec.CodeFileNotFound {
		return false, err
	}
	archive, err := guestArchive(bin)
	if err != nil {
		return false, err
	}
	return true, d.engine.Put(ctx, p.auth, id, guestDir, archive)
}

// guestArchive packs the guest binary. It is read whole and checked first: the
// volume is shared under the hash's name.
func guestArchive(bin guest.Bin) ([]byte, error) {
	data, err := os.ReadFile(bin.Path)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("guest binary: %w", err)}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != bin.Hash {
		return nil, spec.New(spec.CodeUnavailable, "the guest binary has changed since it was found")
	}
	return pack(member{tar.Header{Typeflag: tar.TypeReg, Name: guestFile, Mode: 0o555}, data})
}

// member is one entry of an archive.
type member struct {
	tar.Header
	data []byte
}

func pack(members ...member) ([]byte, error) {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	for _, m := range members {
		m.Size = int64(len(m.data))
		if err := archive.WriteHeader(&m.Header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(m.data); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return buf.Bytes(), err
}
