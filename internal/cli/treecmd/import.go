package treecmd

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
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
links that may (with a ".." behind a name, too, as in "a/../b"), devices, sparse files,
names that stand twice and the like are refused, with the entry and the reason. It is
checked as it comes; an error says how much has landed before it. Modes are kept, but no
special bits; owners and times are not.`,
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
	from, err = uncompressed(from)
	if err != nil {
		return err
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
		return explain(err)
	}
	return m.report(stats, "imported")
}

// compressors are the programs that unpack what begins so.
var compressors = []struct{ begin, name, program string }{
	{"\x1f\x8b", "gzip", "zcat"}, {"BZh", "bzip2", "bzcat"}, {"\xfd7zXZ", "xz", "xzcat"}, {"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
}

// uncompressed looks at the beginning of an archive, and refuses one that is compressed or
// empty before anything is asked for.
func uncompressed(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	begin, _ := buffered.Peek(6) // an error comes again when it is read
	for _, c := range compressors {
		if bytes.HasPrefix(begin, []byte(c.begin)) {
			return nil, verb.Usage("the archive is compressed with %s: %s FILE | berth import ...", c.name, c.program)
		}
	}
	if len(begin) == 0 {
		if _, err := buffered.ReadByte(); err == io.EOF {
			return nil, verb.Usage("there is no archive: our input is empty")
		}
	}
	return buffered, nil
}

// explain says what to do about files that cannot be replaced.
func explain(err error) error {
	var e *spec.Error
	if !errors.As(err, &e) || e.Code != spec.CodeNotReplaceable {
		return err
	}
	c := *e
	c.Hint = "a wall keeps settings of a repository as they are: export with --gitignore, which leaves .git out, or import into a directory of its own"
	return &c
}
