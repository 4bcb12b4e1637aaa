package cli

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

func newDoctor(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [--backend NAME]",
		Short: "Say what works here, what is missing, and the cure",
		Long: `Doctor tries what each backend needs and says what is missing and what cures it. The
answer is no if something is missing that the chosen backend needs; the others are
shown and do not count. It starts nothing: of an engine that is started on demand it says
that it would be.`,
		Example: `  berth doctor
  berth doctor --backend docker
  berth doctor --json | jq 'select(.state != "ok")'`,
		Args:        verb.NoArguments,
		Annotations: map[string]string{verb.Tolerant: "yes"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd) },
	}
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	a.AddCompletions(cmd)
	return cmd
}

// finding is one line of doctor.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // ok, missing, or off: not configured
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	// Needed: the chosen backend cannot do without.
	Needed bool `json:"needed"`
}

func (a *app) doctor(cmd *cobra.Command) error {
	chosen, err := a.Registry.Lookup(a.Config.Backend)
	if err != nil {
		return err
	}
	findings := a.checkConfig(cmd)
	p := a.Progress("looking at what is here")
	findings = append(findings, a.checkGuest(cmd))
	for _, b := range all.New(a.Config.Backends().LookOnly()).Backends() {
		f := a.checkBackend(cmd, b)
		f.Needed = b.Name == chosen.Name
		if f.Needed && f.State == "off" {
			f.State = "missing"
		}
		findings = append(findings, f)
	}
	p.Stop()
	for _, f := range findings {
		if err := a.showFinding(f); err != nil {
			return err
		}
		if f.Needed && f.State != "ok" {
			err = verb.Status(verb.StatusNo)
		}
	}
	return err
}

// checkConfig says what is wrong with the settings; the rest is looked at with defaults in
// their place.
func (a *app) checkConfig(cmd *cobra.Command) []finding {
	f := finding{Name: "configuration", State: "ok", Detail: a.Config.File, Needed: true}
	var wrong []finding
	for _, err := range a.Wrong {
		wrong = append(wrong, f.failed(cmd, err))
	}
	if f.Detail == "" {
		f.Detail = "no file"
	}
	if len(a.Config.Unknown) > 0 {
		f.State = "missing"
		f.Detail = "variables that mean nothing: " + strings.Join(a.Config.Unknown, ", ")
		f.Hint = "`berth info --settings` shows those that do"
		return append(wrong, f)
	}
	if len(wrong) > 0 {
		return wrong
	}
	return []finding{f}
}

// checkGuest finds a guest binary as a backend would for a place of our platform.
func (a *app) checkGuest(cmd *cobra.Command) finding {
	f := finding{Name: "guest", Needed: true}
	bin, err := guest.Binary(cmd.Context(), "linux", runtime.GOARCH, a.Config.Backends().Process.Guest)
	if err != nil {
		return f.failed(cmd, err)
	}
	f.State = "ok"
	f.Detail = fmt.Sprintf("%s, %.1f MiB", bin.Path, float64(bin.Size)/(1<<20))
	return f
}

func (a *app) checkBackend(cmd *cobra.Command, b all.Backend) finding {
	f := finding{Name: b.Name}
	caps, err := probe(cmd.Context(), b)
	switch {
	case errors.Is(err, driver.ErrOnDemand):
		f.State, f.Detail = "ok", driver.ErrOnDemand.Error()
	case err != nil && spec.CodeOf(err) == spec.CodeInvalid:
		f = f.failed(cmd, err)
		f.State = "off"
	case err != nil:
		f = f.failed(cmd, err)
	case !caps.Isolation.Has(b.Isolation):
		f.State = "missing"
		f.Detail = string(b.Isolation) + ": " + caps.Why(string(b.Isolation))
		f.Hint = "without it: --isolation " + strings.Join(strings.Split(caps.Isolation.String(), ","), " or ")
	default:
		f.State = "ok"
		f.Detail = fmt.Sprintf("isolation %s; network %s", caps.Isolation, caps.Network)
	}
	return f
}

func (f finding) failed(cmd *cobra.Command, err error) finding {
	f.State = "missing"
	_, f.Detail, f.Hint = describe(cmd, err)
	return f
}

func (a *app) showFinding(f finding) error {
	if a.JSON {
		return a.Print(f)
	}
	if err := a.Say("%-8s %-14s %s", f.State, f.Name, console.Clean(f.Detail)); err != nil || f.Hint == "" {
		return err
	}
	return a.Say("%23s hint: %s", "", console.Clean(f.Hint))
}
