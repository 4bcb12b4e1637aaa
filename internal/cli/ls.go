package cli

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// answerTimeout bounds the asking of one backend among several.
const answerTimeout = 10 * time.Second

func newLs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the sandboxes",
		Long: `Ls lists the sandboxes of all backends that answer, running or not; with --backend
those of one backend, which has to answer. ENDS says when the sandbox ends by itself:
its idle timeout and its time to live.`,
		Example: `  berth ls
  berth ls --backend docker
  berth ls --json | jq -r .key`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ls(cmd) },
	}
	addSettings(cmd.Flags(), "backend", "owner")
	a.addCompletions(cmd)
	return cmd
}

func (a *app) ls(cmd *cobra.Command) error {
	found, err := a.find(cmd)
	if err != nil {
		return err
	}
	if a.json {
		for _, o := range found {
			if err := a.print(o); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"KEY", "BACKEND", "STATE", "ISOLATION", "AGE", "ENDS", "IMAGE OR WORKDIR"}}
	for _, o := range found {
		age := "-"
		if !o.Created.IsZero() {
			age = short(max(time.Since(o.Created), 0))
		}
		where := o.Image
		if where == "" {
			where = o.Workdir
		}
		rows = append(rows, []string{string(o.Key), o.Backend, string(o.State), orDash(string(o.Isolation)), age, ends(o), orDash(where)})
	}
	if len(found) == 0 {
		a.note("no sandboxes")
		return nil
	}
	return a.table(rows)
}

// ends says by what a sandbox ends without being told to.
func ends(o spec.Owned) string {
	switch {
	case o.Ephemeral:
		return "with its client"
	case o.IdleTimeout > 0 && o.TTL > 0:
		return "idle " + short(o.IdleTimeout) + ", ttl " + short(o.TTL)
	case o.IdleTimeout > 0:
		return "idle " + short(o.IdleTimeout)
	case o.TTL > 0:
		return "ttl " + short(o.TTL)
	}
	return "-"
}

// find lists the sandboxes that a command line means: those of --backend, which has
// to answer, or all that can be had.
func (a *app) find(cmd *cobra.Command) ([]spec.Owned, error) {
	if !a.config.Given("backend") {
		return a.owned(cmd.Context(), func(b all.Backend, err error) {
			a.detail("%s: %s does not answer: %v", cmd.Name(), b.Name, err)
		}), nil
	}
	d, _, err := a.open()
	if err != nil {
		return nil, err
	}
	return berth.List(cmd.Context(), d)
}

// owned lists what all backends have, in order; silent is told which do not answer.
func (a *app) owned(ctx context.Context, silent func(all.Backend, error)) []spec.Owned {
	backends := a.registry.Backends()
	lists, errs := make([][]spec.Owned, len(backends)), make([]error, len(backends))
	var asking sync.WaitGroup
	for i, b := range backends {
		asking.Go(func() { lists[i], errs[i] = listOne(ctx, b) })
	}
	asking.Wait()
	for i, err := range errs {
		if err != nil && silent != nil {
			silent(backends[i], err)
		}
	}
	found := slices.Concat(lists...)
	slices.SortStableFunc(found, func(x, y spec.Owned) int {
		return cmp.Or(cmp.Compare(x.Backend, y.Backend), cmp.Compare(x.Key, y.Key))
	})
	return found
}

func listOne(ctx context.Context, b all.Backend) ([]spec.Owned, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	d, err := openOne(b)
	if err != nil {
		return nil, err
	}
	return berth.List(ctx, d)
}

// elsewhere returns a driver of another backend than the configured one that has a
// sandbox with the key, unless --backend has said which one is meant.
func (a *app) elsewhere(ctx context.Context, key spec.Key) (driver.Driver, bool) {
	if a.config.Given("backend") {
		return nil, false
	}
	for _, o := range a.owned(ctx, nil) {
		if o.Key != key || o.Backend == a.config.Backend {
			continue
		}
		b, err := a.registry.Lookup(o.Backend)
		if err != nil {
			continue
		}
		if d, err := openOne(b); err == nil {
			return d, true
		}
	}
	return nil, false
}

// attach finds the running sandbox that has the key.
func (a *app) attach(ctx context.Context, name string) (*berth.Sandbox, driver.Driver, error) {
	key, err := keyOf(name)
	if err != nil {
		return nil, nil, err
	}
	d, _, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	sb, err := berth.Attach(ctx, d, key)
	if spec.CodeOf(err) == spec.CodeNotFound {
		if other, ok := a.elsewhere(ctx, key); ok {
			d = other
			sb, err = berth.Attach(ctx, d, key)
		}
	}
	return sb, d, err
}
