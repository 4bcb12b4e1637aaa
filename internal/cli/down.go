package cli

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newDown(a *app) *cobra.Command {
	var keys []string
	var everything, ifExists bool
	cmd := &cobra.Command{
		Use:   "down (--key KEY... | --all) [FLAG]...",
		Short: "Remove sandboxes",
		Long: `Down ends what runs in a sandbox, removes it and all that was made for it, and returns
when it is gone. It tries every one even after one has failed. Without --backend a
sandbox is looked for on all backends, the configured one first. --all means all that
"berth ls" lists with the same flags.`,
		Example: `  berth down --key session-1
  berth down --key a --key b
  berth down --key maybe --if-exists
  berth down --all --backend docker`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if everything == (len(keys) > 0) {
				return verb.Usage("want either --key KEY or --all")
			}
			if everything {
				return a.downAll(cmd)
			}
			return a.downKeys(cmd, keys, ifExists)
		},
	}
	verb.AddKeys(cmd.Flags(), &keys, "`KEY` of a sandbox; repeatable")
	cmd.Flags().BoolVar(&everything, "all", false, "every sandbox")
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "a key that no sandbox has is no error")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	a.AddCompletions(cmd)
	return cmd
}

// downKeys removes the sandboxes that have the keys. Reap does not mind a key that nothing
// has; a person who mistyped one does.
func (a *app) downKeys(cmd *cobra.Command, keys []string, ifExists bool) error {
	d, _, err := a.Open()
	if err != nil {
		return err
	}
	owned, err := berth.List(cmd.Context(), d)
	if err != nil {
		return err
	}
	var failed error
	for _, name := range keys {
		failed = a.collect(cmd, failed, a.downKey(cmd, d, owned, name, ifExists))
	}
	return failed
}

func (a *app) downKey(cmd *cobra.Command, d driver.Driver, owned []spec.Owned, name string, ifExists bool) error {
	key, err := verb.KeyOf(name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(owned, func(o spec.Owned) bool { return o.Key == key }) {
		return a.remove(cmd, d, key)
	}
	other, err := a.Elsewhere(cmd.Context(), key)
	switch {
	case err == nil:
		return a.remove(cmd, other, key)
	case ifExists:
		return nil
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = "`berth ls` lists the sandboxes; --if-exists makes this no error"
	return e
}

// downAll removes all sandboxes that the command line means.
func (a *app) downAll(cmd *cobra.Command) error {
	found, err := a.find(cmd)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range found {
		b, err := a.Registry.Lookup(o.Backend)
		var d driver.Driver
		if err == nil {
			d, err = verb.OpenOne(b)
		}
		if err == nil {
			err = a.remove(cmd, d, o.Key)
		}
		failed = a.collect(cmd, failed, err)
	}
	if len(found) == 0 {
		a.Note("no sandboxes")
	}
	return failed
}

func (a *app) remove(cmd *cobra.Command, d driver.Driver, key spec.Key) error {
	p := a.Progress("removing " + string(key))
	sb := berth.New(d, berth.Spec{Key: key}, berth.ProvisionOptions{})
	a.Audit(sb, d.Name())
	err := sb.Destroy(cmd.Context())
	p.Stop()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Print(map[string]string{"removed": string(key), "backend": d.Name()})
	}
	return a.Say("removed %s", key)
}

// collect reports the error before, so that each gets its line and the last decides
// the exit status.
func (a *app) collect(cmd *cobra.Command, before, next error) error {
	if next == nil {
		return before
	}
	if before != nil && !errors.Is(before, next) {
		a.finish(cmd, before)
	}
	return next
}
