package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

// Clock returns the time of the engine's machine: ages of what it has are told by it.
func (e *Engine) Clock(ctx context.Context, auth driver.Authority) (time.Time, error) {
	var now time.Time
	err := e.Do(ctx, Call{Authority: auth, What: "ask the engine for its time"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}
		if now, err = time.Parse(time.RFC3339Nano, res.Info.SystemTime); err != nil {
			return spec.New(spec.CodeInternal, fmt.Sprintf("the engine's time is %.64q", res.Info.SystemTime))
		}
		return nil
	})
	return now, err
}

// Volumes lists those that have a label, of whatever value.
func (e *Engine) Volumes(ctx context.Context, auth driver.Authority, label string) ([]volume.Volume, error) {
	var items []volume.Volume
	err := e.Do(ctx, Call{Authority: auth, What: "list volumes", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("label", label)})
		items = res.Items
		return err
	})
	return items, err
}

// Networks lists those that have a label, of whatever value.
func (e *Engine) Networks(ctx context.Context, auth driver.Authority, label string) ([]network.Summary, error) {
	var items []network.Summary
	err := e.Do(ctx, Call{Authority: auth, What: "list networks", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.NetworkList(ctx, client.NetworkListOptions{Filters: make(client.Filters).Add("label", label)})
		items = res.Items
		return err
	})
	return items, err
}

// RemoveVolume removes a volume that no container has, and reports whether it did.
func (e *Engine) RemoveVolume(ctx context.Context, auth driver.Authority, name string) (bool, error) {
	return unlessUsed(e.Do(ctx, Call{Authority: auth, What: "remove volume", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	}))
}

// RemoveNetwork removes a network that no container is in, and reports whether it did.
func (e *Engine) RemoveNetwork(ctx context.Context, auth driver.Authority, id string) (bool, error) {
	return unlessUsed(e.Do(ctx, Call{Authority: auth, What: "remove network", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		return err
	}))
}

// unlessUsed makes success of a refusal to remove what is in use, or gone: engines call it
// a conflict, or forbidden.
func unlessUsed(err error) (removed bool, _ error) {
	if cerrdefs.IsConflict(err) || cerrdefs.IsPermissionDenied(err) || cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
