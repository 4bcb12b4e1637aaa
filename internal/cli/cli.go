package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	json, quiet, verbose bool

	config   *config.Config
	registry *all.Registry
	signals  *signals
	// usage: what failed was the command line, before a verb ran.
	usage bool
}

// Main runs one command line, without the program's name, and returns the exit
// status. It reads the environment and takes the signals of this process. The end of
// ctx ends what runs.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, usage: true}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.signals = watchSignals(cancel)
	defer a.signals.stop()

	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	verb, err := root.ExecuteContextC(ctx)
	if a.usage && slices.Contains(beforeDashes(args), "--json") {
		a.json = true // flags after the wrong one were not looked at
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return a.finish(verb, err)
}

// newRoot builds the whole tree of commands.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "berth [FLAG]...",
		Short: "Run commands in a sandbox",
		Long: `Berth gives a command a place to work: this machine inside a kernel sandbox, a
container, another machine over SSH. It behaves the same in all of them.`,
		Example: `  berth run -- npm test                 # in a sandbox on this directory
  berth run --network open -- go get ./...
  berth up --key session-1              # a sandbox that stays
  berth exec --key session-1 -- pytest -q
  berth down --key session-1
  berth doctor                          # what works here, and what is missing`,
		SilenceErrors:         true,
		DisableFlagsInUseLine: true,
		SilenceUsage:          true,
		Args:                  cobra.ArbitraryArgs,
		PersistentPreRunE:     a.prepare,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			a.usage = true
			return usageError("there is no command %q", args[0])
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w", err) })
	root.SetHelpTemplate(helpTemplate)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.json, "json", false, "print results and errors as JSON, one object a line")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notices on stderr")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "say on stderr what is being done")
	addSettings(root.PersistentFlags(), "config")
	for _, verb := range []func(*app) *cobra.Command{
		newRun, newExec, newUp, newLs, newInfo, newDown, newDoctor, newConform, newVersion, newCompletion,
	} {
		cmd := verb(a)
		if cmd.Annotations == nil {
			cmd.Annotations = map[string]string{}
		}
		cmd.Annotations[exitStatusKey] = exitStatusText(cmd)
		cmd.DisableFlagsInUseLine = true
		root.AddCommand(cmd)
	}
	root.Annotations = map[string]string{exitStatusKey: exitStatusText(root)}
	return root
}

// prepare resolves the configuration before a verb runs.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	a.usage = false
	c, err := config.Load(config.OS(givenSettings(cmd)))
	if err != nil {
		return err
	}
	a.config = c
	a.registry = all.New(c.Backends())
	return nil
}

// terminal reports whether a stream is a terminal that a person looks at.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour reports whether stderr may be coloured.
func (a *app) colour() bool {
	return a.config != nil && a.config.Color && !a.json && terminal(a.stderr)
}

// beforeDashes returns the arguments that are berth's own.
func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}

// needCommand refuses a command line that does not say what to run.
func needCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return usageError("there is no command to run: berth %s -- COMMAND [ARG]...", cmd.Name())
	}
	return nil
}

// noArguments refuses what a verb does not take.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unexpected argument %q", args[0])
	}
	return nil
}

// keyOf checks a --key that a verb cannot do without.
func keyOf(key string) (spec.Key, error) {
	if key == "" {
		return "", usageError("--key is missing: it says which sandbox is meant")
	}
	return spec.Key(key), spec.Wrap(spec.ValidateKey(spec.Key(key)), "", "", "", "")
}
