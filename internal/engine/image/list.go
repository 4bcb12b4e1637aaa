package image

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"
)

// List returns what the engine has, by its first tag; what has none comes last.
func (s *Store) List(ctx context.Context) ([]spec.Image, error) {
	items, err := s.list(ctx, driver.Authority{}, nil)
	if err != nil {
		return nil, err
	}
	images := make([]spec.Image, 0, len(items))
	for _, i := range items {
		row := spec.Image{ID: i.ID, Tags: named(i.RepoTags), Digests: named(i.RepoDigests), SizeBytes: max(i.Size, 0), Created: time.Unix(i.Created, 0)}
		row.Built, row.Snapshot = ours(i.Labels)
		images = append(images, row)
	}
	first := func(i spec.Image) string {
		if len(i.Tags) == 0 {
			return "\xff" // no tag begins with it
		}
		return i.Tags[0]
	}
	slices.SortFunc(images, func(a, b spec.Image) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.ID, b.ID))
	})
	return images, nil
}

func (s *Store) list(ctx context.Context, auth driver.Authority, filters client.Filters) ([]image.Summary, error) {
	var items []image.Summary
	err := s.engine.Do(ctx, engine.Call{Authority: auth, What: "list images", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ImageList(ctx, client.ImageListOptions{Filters: filters})
		items = res.Items
		return err
	})
	return items, err
}

// Remove removes an image by its name or id; see driver.Imager.
func (s *Store) Remove(ctx context.Context, auth driver.Authority, ref string) error {
	if err := checkRef(ref); err != nil {
		return err
	}
	err := s.engine.Do(ctx, engine.Call{Authority: auth, What: "remove image", Max: engine.ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
		return err
	})
	if e, ok := errors.AsType[*spec.Error](err); ok && e.Hint == "" {
		switch {
		case e.Code == spec.CodeNotFound:
			e.Hint = "`berth image ls` lists what is there"
		case cerrdefs.IsConflict(err):
			e.Hint = "something is made of it: `berth ls` lists the sandboxes, and there may be containers of others"
		}
	}
	return err
}

// Prune removes images that were built for this owner and that no container uses, and
// what is left of its snapshots that were cut off or removed. A snapshot is kept for
// somebody, and stays. now is the engine's time; what is younger than young may still be
// about to get its name. It returns the names and the bytes that they took, also beside an
// error.
func (s *Store) Prune(ctx context.Context, auth driver.Authority, now time.Time, young time.Duration) ([]string, int64, error) {
	removed, freed, failed := []string{}, int64(0), error(nil)
	for _, label := range []string{labelBuilt, snapshot.LabelOwner} {
		items, err := s.list(ctx, auth, make(client.Filters).Add("label", label+"="+s.options.Owner))
		failed = cmp.Or(failed, err)
		for _, i := range items {
			if i.Labels[label] != s.options.Owner { // the engine's filter is not trusted for that
				continue
			}
			names := unwanted(i, label, now.Add(-young))
			for _, name := range names {
				err := s.Remove(ctx, auth, name)
				switch {
				case err == nil:
					removed = append(removed, name)
					if len(names) >= len(i.RepoTags) {
						freed += max(i.Size, 0)
					}
				case cerrdefs.IsConflict(err) || spec.CodeOf(err) == spec.CodeNotFound: // in use, or gone
				default:
					failed = cmp.Or(failed, err)
				}
			}
		}
	}
	return removed, freed, failed
}

// unwanted are the names by which an image of ours is to go. One that somebody else gave
// it is theirs. An image without a name has its labels of us, or of an image of ours that
// somebody has made it of: what is left of a snapshot is without a name, a build has one.
func unwanted(i image.Summary, label string, before time.Time) []string {
	tags := named(i.RepoTags)
	switch {
	case len(tags) == 0 && (label == labelBuilt || len(named(i.RepoDigests)) > 0 || i.Labels[snapshot.LabelPlace] != "" || !time.Unix(i.Created, 0).Before(before)):
		return nil
	case len(tags) == 0:
		return []string{i.ID}
	case label == labelBuilt:
		return slices.DeleteFunc(tags, func(tag string) bool { return !strings.HasPrefix(tag, Repository+":") })
	case snapshot.Alive(tags):
		return nil
	}
	return slices.DeleteFunc(tags, func(tag string) bool { return !snapshot.Removed(tag) })
}
