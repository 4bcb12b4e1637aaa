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
	if gate.Acquire(ctx, wholeGate) != nil {
		return ended(ctx)
	}
	defer gate.Release(wholeGate)
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
	err := e.Do(ctx, Call{Authority: auth, What: "list containers", Reads: true}, func(ctx context.Context, api *client.Client) error {
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

// settleTries is how often a state is asked for that an engine may not have noticed to be
// over: it takes its runtime's reports for news also when they are older than what it did
// itself.
const settleTries = 10

// Settled is State, asked again for half a second while the container is in a state in which
// it should not be any more.
func (e *Engine) Settled(ctx context.Context, auth driver.Authority, id string, old container.ContainerState) (container.ContainerState, error) {
	for try := 1; ; try++ {
		now, err := e.State(ctx, auth, id)
		if err != nil || now != old || try == settleTries {
			return now, err
		}
		if err := Pause(ctx, PollEvery); err != nil {
			return "", err
		}
	}
}

// Look describes the container with a name, as Inspect does. One that is frozen goes on
// first, which its labels tell apart from others; its status is StatePaused all the same,
// for whoever has to put it back, and for one that the engine could not let go on. One that
// is frozen in passing is in no such need, as Frozen says.
func (e *Engine) Look(ctx context.Context, auth driver.Authority, name string, labels map[string]string, by string) (*container.InspectResponse, error) {
	id, passing, err := e.Frozen(ctx, auth, name, labels, by)
	if err == nil && id != "" {
		err = e.Thaw(ctx, auth, id)
	}
	// One that the engine cannot let go on, as its processes are gone, can still be removed.
	stuck := id != "" && spec.CodeOf(err) == spec.CodeUnavailable
	if err != nil && spec.CodeOf(err) != spec.CodeNotFound && !stuck {
		return nil, err
	}
	c, err := e.Inspect(ctx, auth, name)
	if err == nil && c.ID == id && c.State.Status == container.StateRunning && !passing {
		c.State.Status = container.StatePaused
	}
	return c, err
}

// Frozen returns the id of the container with a name and labels if it is frozen, else "", and
// whether it is so in passing: a container has the name by, which has the other name in it,
// and whoever made that lets the first one go on. It asks the list, which is answered also
// where Inspect would not be, as Exec says.
func (e *Engine) Frozen(ctx context.Context, auth driver.Authority, name string, labels map[string]string, by string) (id string, passing bool, _ error) {
	items, err := e.list(ctx, auth, make(client.Filters).Add("name", name))
	for _, c := range items {
		if c.State == container.StatePaused && slices.Contains(c.Names, "/"+name) && has(c.Labels, labels) {
			id = c.ID
		}
		passing = passing || slices.Contains(c.Names, "/"+by)
	}
	return id, passing && id != "", err
}

func has(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}
