package treecmd

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
)

// importFlags are the flags of import.
type importFlags struct {
	common
	limits
	input      string
	empty, one bool
}

// NewImport returns the verb import.
func NewImport(env *verb.Env) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import --key KEY [FLAG]... [DIR [FILE]]",
		Short: "Put a tar archive into a directory of a sandbox",
		Long: `Import reads an uncompressed tar archive from FILE, or from our input, and puts what it
holds into DIR, or into the workdir. Files and links that have its names are replaced,
directories are merged. Nothing in it is trusted: paths that are absolute or lead out,
links out, devices, sparse files, names that stand twice and the like are refused, with
the entry and the reason. It is checked as it comes; an error says how much has landed
before it. Modes are kept, but no special bits; owners and times are not.`,
		Example: `  berth import --key session-1 . work.tar
  tar c src | berth import --key session-1
  git archive HEAD | berth import --key session-1 --empty repo
  zcat work.tar.gz | berth import --key session-1`,
		Args: atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.input = argument(args, 1)
			return load(cmd, env, &f, argument(args, 0))
		},
	}
	cmd.Flags().BoolVar(&f.empty, "empty", false, "refuse a directory that holds anything")
	cmd.Flags().BoolVar(&f.one, "refuse-case-twins", false, "refuse names that differ only in the case of their letters")
	f.limits.add(cmd)
	return f.common.add(env, cmd)
}

func load(cmd *cobra.Command, env *verb.Env, f *importFlags, dir string) error {
	limits, err := f.limits.limits()
	if err != nil {
		return err
	}
	from := env.Stdin
	if f.input != "" && f.input != "-" {
		file, err := os.Open(f.input)
		if err != nil {
			return verb.Usage("%w", err)
		}
		defer file.Close()
		from = file
	} else if console.Terminal(env.Stdin) {
		return verb.Usage("an archive does not come from a terminal: name a FILE, or use a pipe")
	}
	ctx := cmd.Context()
	sb, err := f.attach(ctx, env)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	m := move(env, "import")
	defer m.shown.Stop()
	stats, err := sb.Import(ctx, dir, counted{m: m, r: from}, tree.ImportOptions{Empty: f.empty, RefuseCaseTwins: f.one, Limits: limits})
	if err != nil {
		return err
	}
	return m.report(stats, "imported")
}
