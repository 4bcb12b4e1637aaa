package cli

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/eventcmd"
	"github.com/berth-dev/berth/internal/cli/filescmd"
	"github.com/berth-dev/berth/internal/cli/imagecmd"
	"github.com/berth-dev/berth/internal/cli/jobscmd"
	"github.com/berth-dev/berth/internal/cli/portcmd"
	"github.com/berth-dev/berth/internal/cli/repocmd"
	"github.com/berth-dev/berth/internal/cli/shellcmd"
	"github.com/berth-dev/berth/internal/cli/snapshotcmd"
	"github.com/berth-dev/berth/internal/cli/treecmd"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/internal/config"
)

// app is one run of the program.
type app struct {
	verb.Env

	signals *signals
	// usage: what failed was the command line, before a verb ran.
	usage bool
}

// Main runs one command line, without the program's name, and returns the exit
// status. It reads the environment and takes the signals of this process. The end of
// ctx ends what runs.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{usage: true}
	a.Stdin, a.Stdout, a.Stderr = stdin, stdout, stderr
	a.Color = config.Colour(config.OS(nil).Environ) // for what is wrong before a verb runs
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.signals = watchSignals(cancel)
	defer a.signals.stop()
	defer a.Close()

	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if a.usage && slices.Contains(beforeDashes(args), "--json") {
		a.JSON = true // flags after the wrong one were not looked at
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return a.finish(cmd, err)
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
			return verb.Unknown(cmd, args[0])
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return verb.Usage("%w", err) })
	root.SetHelpTemplate(helpTemplate)
	flags := root.PersistentFlags()
	flags.BoolVar(&a.JSON, "json", false, "print results and errors as JSON, one object a line")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "no progress and no notices on stderr")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "say on stderr what is being done")
	verb.AddSettings(root.PersistentFlags(), "config")
	root.AddCommand(
		newRun(a), newExec(a), newPs(a), newKill(a), newUp(a), newLs(a), newInfo(a), newDown(a),
		filescmd.NewCp(&a.Env), filescmd.NewCat(&a.Env), filescmd.NewWrite(&a.Env), filescmd.New(&a.Env), jobscmd.New(&a.Env), shellcmd.NewShell(&a.Env), shellcmd.NewTerminals(&a.Env),
		portcmd.NewDial(&a.Env), portcmd.NewForward(&a.Env), portcmd.NewPorts(&a.Env),
		eventcmd.NewEvents(&a.Env), eventcmd.NewAudit(&a.Env),
		treecmd.NewExport(&a.Env), treecmd.NewImport(&a.Env), treecmd.NewManifest(&a.Env),
		snapshotcmd.NewSuspend(&a.Env), snapshotcmd.NewResume(&a.Env),
		snapshotcmd.NewSnapshot(&a.Env), snapshotcmd.NewSnapshots(&a.Env), snapshotcmd.NewRestore(&a.Env, ofWhatThereIs()), snapshotcmd.NewFork(&a.Env, ofWhatThereIs()),
		imagecmd.New(&a.Env), imagecmd.NewPrune(&a.Env), repocmd.NewWorktree(&a.Env),
		newDoctor(a), newConform(a), newVersion(a), newCompletion(a),
	)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newExitCodes())
	complete(root)
	return root
}

// complete gives a command and those below it what all have.
func complete(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[exitStatusKey] = exitStatusText(cmd)
	cmd.DisableFlagsInUseLine = true
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// prepare resolves the configuration before a verb runs.
func (a *app) prepare(cmd *cobra.Command, _ []string) error {
	a.usage = false
	return a.Prepare(cmd)
}

// beforeDashes returns the arguments that are berth's own.
func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}
