package engine

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// freezeTries is how often a container is tried to be frozen that goes on starting
// processes: a runtime gives up on one whose group grows meanwhile.
const freezeTries = 10

// Freeze suspends all processes of a container. One that is frozen is no error, one that
// does not run is CodeNotFound.
func (e *Engine) Freeze(ctx context.Context, auth driver.Authority, id string) error {
	gate := e.gates.of(id)
	gate.Lock()
	defer gate.Unlock()
	for try := 1; ; try++ {
		err := e.Do(ctx, Call{Authority: auth, What: "pause container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
			_, err := api.ContainerPause(ctx, id, client.ContainerPauseOptions{})
			return err
		})
		again := cerrdefs.IsInternal(err) && try < freezeTries
		if err = e.unless(ctx, auth, id, container.StatePaused, err); err == nil || !again || spec.CodeOf(err) == spec.CodeNotFound {
			return err
		}
		if err := Pause(ctx, PollEvery); err != nil {
			return err
		}
	}
}

// Thaw lets a frozen container go on. One that runs is no error, one that is stopped is
// CodeNotFound.
func (e *Engine) Thaw(ctx context.Context, auth driver.Authority, id string) error {
	err := e.Do(ctx, Call{Authority: auth, What: "unpause container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		return err
	})
	return e.unless(ctx, auth, id, container.StateRunning, err)
}

// unless returns err unless the container is in the state that was asked for: the status
// of an engine's refusal does not say that it is in it already.
func (e *Engine) unless(ctx context.Context, auth driver.Authority, id string, want container.ContainerState, err error) error {
	if code := spec.CodeOf(err); code != spec.CodeUnavailable && code != spec.CodeInvalid {
		return err
	}
	now, stateErr := e.State(ctx, auth, id)
	switch {
	case stateErr != nil:
		return stateErr
	case now == want:
		return nil
	case now != container.StateRunning && now != container.StatePaused:
		return &spec.Error{Code: spec.CodeNotFound, Err: err}
	}
	return err
}

// State says in what state a container is, given its id. It is answered at once whatever
// the engine is doing with the container, as Inspect is not.
func (e *Engine) State(ctx context.Context, auth driver.Authority, id string) (container.ContainerState, error) {
	var state container.ContainerState
	err := e.Do(ctx, Call{Authority: auth, What: "list containers"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("id", id)})
		for _, c := range res.Items {
			if c.ID == id {
				state = e.state(c.State)
			}
		}
		return err
	})
	if err == nil && state == "" {
		err = spec.New(spec.CodeNotFound, "the container is gone")
	}
	return state, err
}

// Look describes the container with a name, as Inspect does. One that is frozen goes on
// first, which its labels tell apart from others; its status is StatePaused all the same,
// for whoever has to put it back, and for one that the engine could not let go on.
func (e *Engine) Look(ctx context.Context, auth driver.Authority, name string, labels map[string]string) (*container.InspectResponse, error) {
	id, err := e.Frozen(ctx, auth, name, labels)
	if err == nil && id != "" {
		err = e.Thaw(ctx, auth, id)
	}
	// One that the engine cannot let go on, as its processes are gone, can still be removed.
	stuck := id != "" && spec.CodeOf(err) == spec.CodeUnavailable
	if err != nil && spec.CodeOf(err) != spec.CodeNotFound && !stuck {
		return nil, err
	}
	c, err := e.Inspect(ctx, auth, name)
	if err == nil && c.ID == id && c.State.Status == container.StateRunning {
		c.State.Status = container.StatePaused
	}
	return c, err
}

// Frozen returns the id of the container with a name and labels if it is frozen, else "". It
// asks the list, which is answered also where Inspect would not be, as Exec says.
func (e *Engine) Frozen(ctx context.Context, auth driver.Authority, name string, labels map[string]string) (string, error) {
	items, err := e.List(ctx, auth, labels, container.StatePaused)
	for _, c := range items {
		if slices.Contains(c.Names, "/"+name) {
			return c.ID, err
		}
	}
	return "", err
}
