package cli

import (
	"regexp"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newConform(a *app) *cobra.Command {
	var only string
	var soak bool
	cmd := &cobra.Command{
		Use:   "conform [--backend NAME] [--run REGEXP] [FLAG]...",
		Short: "Try whether a backend keeps the contract",
		Long: `Conform runs the conformance suite against a backend as it is configured, in
sandboxes that it makes and removes, and prints a line for each case: the promise that
was broken, or the capability that is not declared.`,
		Example: `  berth conform --backend process
  berth conform --backend process --isolation none --run 'Timeout|Kill'
  berth conform --backend docker --image busybox --json`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.conform(cmd, only, soak)
		},
	}
	cmd.Flags().StringVar(&only, "run", "", "only the cases whose name matches `REGEXP`")
	cmd.Flags().BoolVar(&soak, "soak", false, "also the cases that repeat or move a lot")
	verb.AddSettings(cmd.Flags(), placeSettings...)
	a.AddCompletions(cmd)
	return cmd
}

func (a *app) conform(cmd *cobra.Command, only string, soak bool) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return verb.Usage("--run: %w", err)
	}
	b, err := a.Registry.Lookup(a.Config.Backend)
	if err != nil {
		return err
	}
	base, err := (&placeFlags{}).spec(a.Config, b)
	if err != nil {
		return err
	}
	base.Workdir = "" // each place has one of its own
	o := drivertest.Options{Open: b.Open, Spec: base, Soak: soak, Only: pattern}
	var broken error
	report, err := drivertest.Check(cmd.Context(), o, func(r drivertest.Result) {
		if err := a.showCase(b, r); err != nil && broken == nil {
			broken = err
		}
	})
	switch {
	case err != nil:
		return err
	case broken != nil:
		return broken
	}
	if a.JSON {
		err = a.Print(map[string]any{"backend": b.Name, "passed": report.Passed, "failed": report.Failed, "skipped": report.Skipped, "caps": report.Caps})
	} else {
		err = a.Say("%d passed, %d failed, %d skipped", report.Passed, report.Failed, report.Skipped)
	}
	if err == nil && !report.OK() {
		err = verb.Status(verb.StatusNo)
	}
	return err
}

// caseLine is one case as JSON has it.
type caseLine struct {
	Backend    string   `json:"backend"`
	Case       string   `json:"case"`
	Rule       string   `json:"rule"`
	Outcome    string   `json:"outcome"`
	Reason     string   `json:"reason,omitempty"`
	Messages   []string `json:"messages,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

func (a *app) showCase(b all.Backend, r drivertest.Result) error {
	if a.JSON {
		return a.Print(caseLine{Backend: b.Name, Case: r.Case, Rule: r.Rule, Outcome: string(r.Outcome), Reason: r.Reason, Messages: r.Messages, DurationMS: r.Duration.Milliseconds()})
	}
	line := string(r.Outcome)
	switch r.Outcome {
	case drivertest.Passed:
		line = "ok"
	case drivertest.Failed:
		line = "FAIL"
	case drivertest.Skipped:
		line = "skip"
	}
	text := r.Case + " " + console.Short(r.Duration)
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	if err := a.Say("%-4s %s", line, console.Clean(text)); err != nil || r.Outcome != drivertest.Failed {
		return err
	}
	if err := a.Say("     rule: %s", console.Clean(r.Rule)); err != nil {
		return err
	}
	for _, m := range r.Messages {
		if err := a.Say("     %s", console.Clean(m)); err != nil {
			return err
		}
	}
	return nil
}
