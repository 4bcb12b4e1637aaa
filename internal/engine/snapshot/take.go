package snapshot

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// claimLimit bounds the wait for another client that names a snapshot.
const claimLimit = 10 * time.Second

// Source is a place that a snapshot is taken of.
type Source struct {
	Container *container.InspectResponse
	Key       spec.Key
	Workdir   string
	Env       []string // the names of the variables that its spec gave
	User      account.User
	State     string // the directory of its guest's state
	Guest     string // where its guest's program is mounted
	// Volume reads what lies in a volume of the place, with owners. nil: the engine's own
	// archive has them.
	Volume func(ctx context.Context, dir string, read func(context.Context, io.Reader) error) error
	// Read is called when all of it has been read. An error of it, as something has run in
	// the place meanwhile, is the snapshot's.
	Read func(context.Context) error
}

// Volumes returns where the volumes of a container are mounted whose contents a snapshot
// keeps: those that came with it. CodeUnsupported: they cannot be told from what is mounted
// from outside.
func (s *Source) Volumes() ([]string, error) {
	foreign := map[string]bool{s.Guest: true} // by target
	for _, m := range s.Container.HostConfig.Mounts {
		if m.Type == mount.TypeVolume && m.Source != "" {
			foreign[m.Target] = true
		}
	}
	if s.Container.State.Status == container.StateCreated {
		return nil, nil // nothing has been in there yet
	}
	var kept, others []string
	for _, m := range s.Container.Mounts {
		switch {
		case m.Type == mount.TypeVolume && !foreign[m.Destination]:
			kept = append(kept, m.Destination)
		case m.Destination != s.Guest:
			others = append(others, m.Destination)
		}
	}
	slices.Sort(kept) // what lies in another comes after it
	for _, volume := range kept {
		for _, other := range others {
			if strings.HasPrefix(other, volume+"/") {
				return nil, &spec.Error{Code: spec.CodeUnsupported, Path: other, Err: fmt.Errorf("it is mounted into %s, which a snapshot would have to keep without it", volume)}
			}
		}
	}
	return kept, nil
}

// taking is one snapshot under way.
type taking struct {
	*Store
	auth   driver.Authority
	source *Source
	labels map[string]string
	env    []string
	// What has been made: the container as an image, and the helper.
	layer, image string
}

// Take keeps the files of a place under an id, "" being a random one. What it has made is
// removed if it fails; what was needed on the way and cannot be removed is left to a prune.
func (s *Store) Take(ctx context.Context, auth driver.Authority, src *Source, id string) (spec.Snapshot, error) {
	if id == "" {
		id = "snap-" + random()
	}
	if err := spec.ValidateKey(spec.Key(id)); err != nil {
		return spec.Snapshot{}, spec.New(spec.CodeInvalid, fmt.Sprintf("snapshot id %.128q: want the grammar of a key", id))
	}
	if err := s.free(ctx, auth, id); err != nil {
		return spec.Snapshot{}, err
	}
	volumes, err := src.Volumes()
	if err != nil {
		return spec.Snapshot{}, err
	}
	base, err := s.inspect(ctx, auth, src.Container.Image)
	if err != nil {
		return spec.Snapshot{}, err
	}
	if err := base.carries(volumes); err != nil {
		return spec.Snapshot{}, err
	}
	t := &taking{Store: s, auth: auth, source: src}
	t.describe(base, id)
	taken, err := t.build(ctx, volumes)
	if err == nil {
		err = src.Read(ctx)
	}
	if err == nil {
		err = t.name(ctx, id)
	}
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	if err != nil {
		return spec.Snapshot{}, cmp.Or(err, t.discard(bg, t.image), t.discard(bg, t.layer))
	}
	_ = t.discard(bg, t.layer)
	f, _ := s.found(taken.labels, taken.size)
	return f.Snapshot, nil
}

// name gives the image its name, unless somebody has taken it in all that time. An engine
// gives a name in use to another image without a word; that of a container it gives once.
func (t *taking) name(ctx context.Context, id string) error {
	ref := Reference(t.Owner, id)
	o := idle(claimOn(ref), t.image, t.labels, t.env)
	claim, err := t.Engine.Create(ctx, t.auth, o)
	for deadline := time.Now().Add(claimLimit); errors.Is(err, engine.ErrTaken) && time.Now().Before(deadline); {
		if err := engine.Pause(ctx, engine.PollEvery); err != nil {
			return err
		}
		claim, err = t.Engine.Create(ctx, t.auth, o)
	}
	if errors.Is(err, engine.ErrTaken) {
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("another client is about to name a snapshot %q", id), Hint: "if it has died, `berth prune` removes what it has left, a minute later"}
	}
	if err != nil {
		return err
	}
	defer t.drop(ctx, claim)
	if err := t.free(ctx, t.auth, id); err != nil {
		return err
	}
	return t.tag(ctx, t.auth, t.image, ref)
}

// drop removes a helper. One that cannot be removed is left to a prune.
func (t *taking) drop(ctx context.Context, helper string) {
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	_ = t.Engine.Remove(bg, driver.Authority{}, helper)
}

// free reports CodeExists where a snapshot has the id.
func (s *Store) free(ctx context.Context, auth driver.Authority, id string) error {
	_, err := s.Find(ctx, auth, id)
	switch {
	case err == nil:
		return &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("there is a snapshot %q", id), Hint: "`berth snapshots rm` removes it"}
	case spec.CodeOf(err) == spec.CodeNotFound:
		return nil
	}
	return err
}

// describe says what the image is to say: the place's own labels and variables are made
// empty, or what the place's image has.
func (t *taking) describe(base *image, id string) {
	t.labels = map[string]string{}
	for name := range t.source.Container.Config.Labels {
		t.labels[name] = base.labels[name]
	}
	var unset []string
	if names := base.labels[LabelUnset]; names != "" {
		unset = strings.Split(names, ",")
	}
	for _, name := range t.source.Env {
		value, had := base.env[name]
		if !had {
			unset = append(unset, name)
		}
		t.env = append(t.env, name+"="+value)
	}
	slices.Sort(unset)
	maps.Copy(t.labels, map[string]string{
		LabelID: id, LabelOwner: t.Owner, LabelKey: string(t.source.Key), LabelWorkdir: t.source.Workdir,
		LabelCreated: time.Now().UTC().Format(time.RFC3339Nano), LabelBase: strconv.FormatInt(base.size, 10),
		LabelUnset: strings.Join(slices.Compact(unset), ","),
	})
}

// build makes the image and returns what it is.
func (t *taking) build(ctx context.Context, volumes []string) (taken *image, err error) {
	from := t.source.Container.Image
	if !t.rootIsImages() {
		if t.layer, err = t.commit(ctx, t.source.Container.ID); err != nil {
			return nil, err
		}
		from = t.layer
	}
	helper, err := t.Engine.Create(ctx, t.auth, idle(helperPrefix+random(), from, t.labels, t.env))
	if err != nil {
		return nil, err
	}
	defer t.drop(ctx, helper)
	for _, volume := range volumes {
		if err := t.carry(ctx, helper, volume); err != nil {
			return nil, err
		}
	}
	if err := t.Engine.Fill(ctx, t.auth, helper, "/", bytes.NewReader(emptied(t.source.State, 0o700, t.source.User))); err != nil {
		return nil, err
	}
	if t.image, err = t.commit(ctx, helper); err != nil {
		return nil, err
	}
	taken, err = t.inspect(ctx, t.auth, t.image)
	if err != nil {
		return nil, err
	}
	return taken, t.verify(taken)
}

// verify holds the image against what it was to say: one that knows more is none.
func (t *taking) verify(got *image) error {
	for _, entry := range t.env {
		if name, value, _ := strings.Cut(entry, "="); got.env[name] != value {
			return spec.New(spec.CodeUnsupported, "the engine keeps the variable "+name+" of the place in the image")
		}
	}
	for name, value := range t.labels {
		if got.labels[name] != value {
			return spec.New(spec.CodeUnsupported, "the engine does not give the image its label "+name)
		}
	}
	return nil
}

// commit makes an image of a container. An engine that takes no configuration here has it
// from the helper, of which the snapshot is made; to the image between it is told what a prune
// looks for.
func (t *taking) commit(ctx context.Context, id string) (string, error) {
	o := client.ContainerCommitOptions{NoPause: true, Config: &container.Config{Env: t.env, Labels: t.labels}}
	if t.Engine.Libpod && id == t.source.Container.ID {
		o.Changes = []string{"LABEL " + LabelOwner + "=" + t.Owner, "LABEL " + LabelPlace + "="}
	}
	var image string
	err := t.Engine.Do(ctx, engine.Call{Authority: t.auth, What: "commit container", Max: engine.TransferLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerCommit(ctx, id, o)
		image = res.ID
		return err
	})
	return image, err
}

// carries refuses volumes that an image made of this one would not have in its files: those
// that it declares, of which whatever is made of it has new ones.
func (i *image) carries(volumes []string) error {
	for declared := range i.volumes {
		if slices.Contains(volumes, path.Clean(declared)) {
			return &spec.Error{
				Code: spec.CodeUnsupported, Path: declared, Err: errors.New("the place's image declares it to be a volume, and so no image keeps what is in it"),
				Hint: "mount a directory there, or take an image without that VOLUME",
			}
		}
	}
	return nil
}

// carry copies what lies in a volume of the place to the same path of the helper, where
// nothing else is then: the image may have files there that the place has removed. The volume
// belongs to the user of the place, or like /tmp to everybody.
func (t *taking) carry(ctx context.Context, helper, volume string) error {
	top, err := t.Engine.Stat(ctx, t.auth, t.source.Container.ID, volume)
	if err != nil {
		return err
	}
	mode, owner := int64(top.Mode.Perm()), t.source.User
	if top.Mode&fs.ModeSticky != 0 {
		mode, owner = mode|0o1000, account.User{}
	}
	if err := t.Engine.Fill(ctx, t.auth, helper, "/", bytes.NewReader(emptied(volume, mode, owner))); err != nil {
		return err
	}
	fill := func(ctx context.Context, archive io.Reader) error {
		return t.Engine.Fill(ctx, t.auth, helper, volume, archive)
	}
	if t.source.Volume != nil {
		return t.source.Volume(ctx, volume, fill)
	}
	return t.Engine.Open(ctx, t.auth, t.source.Container.ID, volume, fill)
}

// rootIsImages reports whether there is nothing in a place but what its image and its volumes
// have, and a commit of it would be an image that declares those.
func (t *taking) rootIsImages() bool {
	return t.Engine.VolumesApart && t.source.Container.HostConfig.ReadonlyRootfs
}

// discard removes an image, if it was made and nothing needs it: where images have parents
// the first goes with the second.
func (t *taking) discard(ctx context.Context, image string) error {
	if image == "" {
		return nil
	}
	err := t.remove(ctx, t.auth, image)
	if cerrdefs.IsConflict(err) {
		return nil
	}
	return err
}

// emptied is an archive that makes dir an empty directory of its owner, whatever it was: a
// file takes its place, and a directory the file's. Some engines give a volume the owner of
// what it is mounted on.
func emptied(dir string, mode int64, owner account.User) []byte {
	var buf bytes.Buffer
	name := strings.TrimPrefix(dir, "/")
	archive := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, ModTime: time.Now()},
		{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner.UID, Gid: owner.GID, ModTime: time.Now()},
	} {
		_ = archive.WriteHeader(h) // to memory
	}
	_ = archive.Close()
	return buf.Bytes()
}

func random() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
