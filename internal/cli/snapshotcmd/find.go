package snapshotcmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// find returns the sandbox that has a key, running or not, without waking it.
func find(ctx context.Context, env *verb.Env, name string) (*berth.Sandbox, driver.Driver, error) {
	key, err := verb.KeyOf(name)
	if err != nil {
		return nil, nil, err
	}
	d, _, err := env.Open()
	if err != nil {
		return nil, nil, err
	}
	owned, err := berth.List(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(owned, func(o spec.Owned) bool { return o.Key == key }) {
		if d, err = env.Elsewhere(ctx, key); err != nil {
			return nil, nil, err
		}
	}
	sb := berth.New(d, berth.Spec{Key: key}, berth.ProvisionOptions{})
	env.Audit(sb, d.Name())
	return sb, d, nil
}

// kept is a snapshot and who has it.
type kept struct {
	berth.Snapshot
	driver  driver.Driver
	backend all.Backend
}

// snapshots lists the snapshots that a command line means: those of --backend, which has to
// answer, or of all backends that keep some and answer.
func snapshots(ctx context.Context, env *verb.Env) ([]kept, error) {
	if env.Config.Given("backend") {
		d, b, err := env.Open()
		if err != nil {
			return nil, err
		}
		return of(ctx, d, b)
	}
	var found []kept
	for _, b := range env.Registry.Backends() {
		bounded, cancel := context.WithTimeout(ctx, verb.AnswerTimeout)
		d, err := verb.OpenOne(b)
		var list []kept
		if err == nil {
			list, err = of(bounded, d, b)
		}
		cancel()
		if err != nil && spec.CodeOf(err) != spec.CodeUnsupported {
			env.Unanswered("snapshots", b, err)
		}
		found = append(found, list...)
	}
	return found, nil
}

func of(ctx context.Context, d driver.Driver, b all.Backend) ([]kept, error) {
	list, err := berth.Snapshots(ctx, d)
	var out []kept
	for _, s := range list {
		out = append(out, kept{s, d, b})
	}
	return out, err
}

// one returns the snapshot that has an id.
func one(ctx context.Context, env *verb.Env, id string) (kept, error) {
	found, err := snapshots(ctx, env)
	if err != nil {
		return kept{}, err
	}
	for _, s := range found {
		if s.ID == id {
			return s, nil
		}
	}
	return kept{}, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("no snapshot has the id %.128q", id), Hint: "`berth snapshots` lists them"}
}
