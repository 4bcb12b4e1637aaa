// Package leftover removes what the making of places has left on an engine: what whoever
// made it did not live to remove.
package leftover

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// Pruner removes what is left of one owner's places.
type Pruner struct {
	Engine *engine.Engine
	Images *image.Store
	Owner  string
	Labels Labels
	// Place reports whether a container is a place of this owner, by its name too: whatever
	// is made of an image has the labels of that, and an image can be made of a place.
	Place func(container.Summary) bool
	// HelperPrefix begins the names of helpers, BorrowerPrefix those of helpers that have the
	// volumes of a place.
	HelperPrefix, BorrowerPrefix string
	// GuestPrefix begins the names of the volumes that hold a guest.
	GuestPrefix string
	// Young is the age up to which what seems to be left may still be in the making.
	Young time.Duration
}

// Labels are the names of the labels by which things are known.
type Labels struct{ Owner, Ephemeral, Helper, Guest string }

// Prune goes on after a failure, and returns the first beside what it has removed. A place
// that has a key and never started is its owner's to end.
func (p *Pruner) Prune(ctx context.Context, auth driver.Authority) (spec.Pruned, error) {
	done := spec.Pruned{Containers: []string{}, Volumes: []string{}, Networks: []string{}, Images: []string{}}
	now, err := p.Engine.Clock(ctx, auth)
	if err != nil {
		return done, err
	}
	failed := p.containers(ctx, auth, now, &done)
	failed = cmp.Or(failed, p.volumes(ctx, auth, &done))
	failed = cmp.Or(failed, p.networks(ctx, auth, now, &done))
	done.Images, done.FreedBytes, err = p.Images.Prune(ctx, auth, now, p.Young)
	return done, cmp.Or(failed, err)
}

// containers removes the containers that somebody made in passing and did not live to
// remove.
func (p *Pruner) containers(ctx context.Context, auth driver.Authority, now time.Time, done *spec.Pruned) error {
	items, failed := p.Engine.List(ctx, auth, nil)
	for _, c := range items {
		var err error
		switch age := now.Sub(time.Unix(c.Created, 0)); {
		case c.State == container.StateRunning, c.State == container.StatePaused, age < p.Young:
			continue
		case p.helper(c, age):
			err = p.removeHelper(ctx, auth, c)
		case p.orphan(c):
			err = p.Engine.Discard(ctx, auth, c.ID)
		default:
			continue
		}
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		done.Containers = append(done.Containers, nameOf(c))
	}
	return failed
}

// Sweep removes places without a key that never started or have ended: their creator was
// killed between two requests, and no guest is there to end them. That it could not is said
// by whatever is asked of the engine next.
func (p *Pruner) Sweep(ctx context.Context, auth driver.Authority) {
	items, err := p.Engine.List(ctx, auth, map[string]string{p.Labels.Owner: p.Owner, p.Labels.Ephemeral: "true"}, container.StateCreated, container.StateExited, container.StateDead)
	items = slices.DeleteFunc(items, func(c container.Summary) bool { return !p.orphan(c) })
	if err != nil || len(items) == 0 {
		return
	}
	now, err := p.Engine.Clock(ctx, auth)
	if err != nil {
		return
	}
	for _, c := range items {
		if now.Sub(time.Unix(c.Created, 0)) > p.Young {
			_ = p.Engine.Discard(ctx, auth, c.ID) // unless it runs by now
		}
	}
}

// removeHelper removes a helper with the anonymous volumes that its image declares, unless
// those that it has are a place's.
func (p *Pruner) removeHelper(ctx context.Context, auth driver.Authority, c container.Summary) error {
	if strings.HasPrefix(nameOf(c), p.BorrowerPrefix) {
		return p.Engine.RemoveHelper(ctx, auth, c.ID)
	}
	return p.Engine.Remove(ctx, auth, c.ID)
}

// helper reports whether a container of that age is one that nobody needs any more: one
// through which a snapshot is made may have to wait for its files.
func (p *Pruner) helper(c container.Summary, age time.Duration) bool {
	if p.Place(c) {
		return false // whatever its image says
	}
	if snapshot.Helper(nameOf(c)) {
		return c.Labels[snapshot.LabelOwner] == p.Owner && (age > engine.TransferLimit || snapshot.Claim(nameOf(c)))
	}
	owner := c.Labels[p.Labels.Owner]
	return strings.HasPrefix(nameOf(c), p.HelperPrefix) && c.Labels[p.Labels.Helper] == "true" && (owner == "" || owner == p.Owner)
}

// orphan reports whether a container is a place without a key that nobody can ask for.
func (p *Pruner) orphan(c container.Summary) bool {
	return p.Place(c) && c.Labels[p.Labels.Ephemeral] == "true"
}

func nameOf(c container.Summary) string {
	if len(c.Names) == 0 {
		return c.ID
	}
	return strings.TrimPrefix(c.Names[0], "/")
}

// volumes removes the guests that no container mounts, which are made again where they
// are needed, and volumes of ours whose place is gone.
func (p *Pruner) volumes(ctx context.Context, auth driver.Authority, done *spec.Pruned) error {
	var failed error
	for _, label := range []string{p.Labels.Guest, p.Labels.Owner} {
		items, err := p.Engine.Volumes(ctx, auth, label)
		failed = cmp.Or(failed, err)
		for _, v := range items {
			ours := v.Labels[p.Labels.Owner] == p.Owner
			if label == p.Labels.Guest {
				ours = strings.HasPrefix(v.Name, p.GuestPrefix)
			}
			if !ours {
				continue
			}
			removed, err := p.Engine.RemoveVolume(ctx, auth, v.Name)
			failed = cmp.Or(failed, err)
			if removed {
				done.Volumes = append(done.Volumes, v.Name)
			}
		}
	}
	return failed
}

func (p *Pruner) networks(ctx context.Context, auth driver.Authority, now time.Time, done *spec.Pruned) error {
	items, failed := p.Engine.Networks(ctx, auth, p.Labels.Owner)
	for _, n := range items {
		if n.Labels[p.Labels.Owner] != p.Owner || now.Sub(n.Created) < p.Young {
			continue
		}
		removed, err := p.Engine.RemoveNetwork(ctx, auth, n.ID)
		failed = cmp.Or(failed, err)
		if removed {
			done.Networks = append(done.Networks, n.Name)
		}
	}
	return failed
}
