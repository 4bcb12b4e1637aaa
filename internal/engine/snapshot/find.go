package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Store holds the snapshots of one owner on one engine.
type Store struct {
	Engine *engine.Engine
	Owner  string
}

// Found is a snapshot with what is needed to make a place of it.
type Found struct {
	spec.Snapshot
	Image     string // its id
	Reference string
	Workdir   string
	Unset     []string // variables that a place of it does not have
}

// Find returns the snapshot with an id. CodeNotFound: this owner has none.
func (s *Store) Find(ctx context.Context, auth driver.Authority, id string) (*Found, error) {
	missing := &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("there is no snapshot %.128q", id), Hint: "`berth snapshots` lists them"}
	if spec.ValidateKey(spec.Key(id)) != nil {
		return nil, missing
	}
	ref := Reference(s.Owner, id)
	image, err := s.inspect(ctx, auth, ref)
	if spec.CodeOf(err) == spec.CodeNotFound {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	f, ok := s.found(image.labels, image.size)
	if !ok || f.ID != id {
		return nil, missing
	}
	f.Image, f.Reference = image.id, ref
	return f, nil
}

// List returns those of the owner, the oldest first.
func (s *Store) List(ctx context.Context) ([]spec.Snapshot, error) {
	var out []spec.Snapshot
	err := s.Engine.Do(ctx, engine.Call{What: "list images", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", LabelOwner+"="+s.Owner)})
		if err != nil {
			return err
		}
		for _, image := range res.Items {
			// The engine's filter is trusted for speed, not for ownership.
			f, ok := s.found(image.Labels, image.Size)
			if ok && slices.ContainsFunc(image.RepoTags, func(tag string) bool {
				ref := Reference(s.Owner, f.ID)
				return tag == ref || strings.HasSuffix(tag, "/"+ref)
			}) {
				out = append(out, f.Snapshot)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b spec.Snapshot) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return out, err
}

// found reads the labels of an image.
func (s *Store) found(labels map[string]string, size int64) (*Found, bool) {
	base, _ := strconv.ParseInt(labels[LabelBase], 10, 64)
	f := &Found{Snapshot: spec.Snapshot{ID: labels[LabelID], Backend: s.Engine.Name, Key: spec.Key(labels[LabelKey]), SizeBytes: max(size-base, 0)}, Workdir: labels[LabelWorkdir]}
	f.Created, _ = time.Parse(time.RFC3339Nano, labels[LabelCreated])
	if names := labels[LabelUnset]; names != "" {
		f.Unset = strings.Split(names, ",")
	}
	return f, labels[LabelOwner] == s.Owner && spec.ValidateKey(spec.Key(f.ID)) == nil
}

// image is what is read of an image.
type image struct {
	id     string
	size   int64
	env    map[string]string
	labels map[string]string
	// volumes are the directories that it declares to be volumes.
	volumes map[string]struct{}
}

func (s *Store) inspect(ctx context.Context, auth driver.Authority, ref string) (*image, error) {
	out := &image{env: map[string]string{}}
	err := s.Engine.Do(ctx, engine.Call{Authority: auth, What: "inspect image", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ImageInspect(ctx, ref)
		if err != nil {
			return err
		}
		out.id, out.size = res.ID, res.Size
		if c := res.Config; c != nil {
			out.labels, out.volumes = c.Labels, c.Volumes
			for _, entry := range c.Env {
				name, value, _ := strings.Cut(entry, "=")
				out.env[name] = value
			}
		}
		return nil
	})
	return out, err
}

// Remove removes a snapshot. One that a container uses keeps its image, under another
// name; none is no error.
func (s *Store) Remove(ctx context.Context, auth driver.Authority, id string) error {
	f, err := s.Find(ctx, auth, id)
	if spec.CodeOf(err) == spec.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	err = s.remove(ctx, auth, f.Reference)
	if !cerrdefs.IsConflict(err) {
		return err
	}
	// With a second name the first can be taken away.
	if err := s.tag(ctx, auth, f.Image, removedReference(f.Image)); err != nil {
		return err
	}
	return s.remove(ctx, auth, f.Reference)
}

// Collect removes the image of a container that has gone if it is a snapshot that was
// removed before and that no other container uses.
func (s *Store) Collect(ctx context.Context, auth driver.Authority, image string) error {
	err := s.remove(ctx, auth, removedReference(image))
	if cerrdefs.IsConflict(err) {
		return nil
	}
	return err
}

// remove removes a name of an image, and with the last one the image. None is no error.
func (s *Store) remove(ctx context.Context, auth driver.Authority, ref string) error {
	err := s.Engine.Do(ctx, engine.Call{Authority: auth, What: "remove image", Max: engine.ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *Store) tag(ctx context.Context, auth driver.Authority, image, ref string) error {
	return s.Engine.Do(ctx, engine.Call{Authority: auth, What: "tag image", Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ImageTag(ctx, client.ImageTagOptions{Source: image, Target: ref})
		return err
	})
}
