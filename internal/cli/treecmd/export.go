package treecmd

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// exportFlags are the flags of export.
type exportFlags struct {
	common
	filter
	limits
	output          string
	zeroTimes, omit bool
}

// NewExport returns the verb export.
func NewExport(env *verb.Env) *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export --key KEY [FLAG]... [DIR]",
		Short: "Write a directory of a sandbox as a tar archive",
		Long: `Export writes what is below DIR, or below the workdir, as an uncompressed tar archive to
our output or to a file, which appears under its name only when it is whole; a device, a
FIFO or a descriptor (/dev/fd/3) is written to as it is. What comes out of the sandbox is
checked on the way: an archive that "berth import" would refuse is an error, and so is a
link that may lead out: absolute, up further than DIR, or up behind a name ("a/../b"),
since a may be a link. Owners are not kept; FIFOs, sockets and devices are left out. The
archive on our output is whole if the exit status is 0. A container that is stopped is read
as it is, without a start, and as a whole: nothing can be excluded then.`,
		Example: `  berth export --key session-1 -o work.tar
  berth export --key session-1 --gitignore src | tar tv
  berth export --key session-1 --zero-times | sha256sum`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return export(cmd, env, &f, argument(args, 0)) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `FILE`, which is replaced when the archive is whole; \"\" or -: our output")
	cmd.Flags().BoolVar(&f.zeroTimes, "zero-times", false, "leave times out, so that the same files give the same archive")
	cmd.Flags().BoolVar(&f.omit, "omit-links", false, "leave out links that may lead out of DIR instead of failing")
	f.filter.add(cmd)
	f.limits.add(cmd)
	return f.common.add(env, cmd)
}

func export(cmd *cobra.Command, env *verb.Env, f *exportFlags, dir string) (err error) {
	limits, err := f.limits.limits()
	if err != nil {
		return err
	}
	stdout := f.output == "" || f.output == "-"
	if stdout && console.Terminal(env.Stdout) {
		return verb.Usage("an archive is nothing for a terminal: use --output FILE, or a pipe")
	}
	if stdout && env.JSON {
		return verb.Usage("--json needs --output FILE: the archive would be our output")
	}
	ctx := cmd.Context()
	to, keep := env.Stdout, func() error { return nil }
	if !stdout {
		out, err := openOutput(ctx, f.output)
		if err != nil {
			return err
		}
		defer out.discard()
		if console.Terminal(out.File) {
			return verb.Usage("%s is a terminal, for which an archive is nothing", f.output)
		}
		to, keep = out.File, out.keep
		if out.name != "" {
			// Where the file lies in what is exported its own beginning is nobody's file.
			f.exclude = append(f.exclude, "**/"+filepath.Base(out.Name()))
		}
	}
	read, done, err := f.source(ctx, env, dir)
	if err != nil {
		return err
	}
	defer done()
	m := move(env, "export")
	defer m.shown.Stop()
	stats, err := read(counted{m: m, w: to}, tree.ExportOptions{
		Exclude: f.exclude, Gitignore: f.gitignore, ZeroTimes: f.zeroTimes, OmitEscapingLinks: f.omit, Limits: limits,
	})
	if err == nil {
		err = keep()
	}
	if err != nil {
		return withFlag(err)
	}
	return m.report(stats, "exported")
}

// source returns what exports the directory: the sandbox, or its backend where it is
// stopped, which is not started for it.
func (f *exportFlags) source(ctx context.Context, env *verb.Env, dir string) (read func(io.Writer, tree.ExportOptions) (tree.Stats, error), done func(), err error) {
	sb, attachErr := f.attach(ctx, env)
	if attachErr == nil {
		return func(w io.Writer, o tree.ExportOptions) (tree.Stats, error) { return sb.Export(ctx, dir, w, o) }, func() { verb.Detach(ctx, sb) }, nil
	}
	if spec.CodeOf(attachErr) != spec.CodeNotFound {
		return nil, nil, attachErr
	}
	for _, o := range env.Owned(ctx, nil) {
		if string(o.Key) != f.key || o.State != spec.StateStopped || env.Config.Given("backend") && o.Backend != env.Config.Backend {
			continue
		}
		b, err := env.Registry.Lookup(o.Backend)
		if err != nil {
			return nil, nil, err
		}
		d, err := verb.OpenOne(b)
		if err != nil {
			return nil, nil, err
		}
		return func(w io.Writer, opts tree.ExportOptions) (tree.Stats, error) {
			return berth.ExportStopped(ctx, d, o.Key, dir, w, opts, berth.ReapOptions{})
		}, func() {}, nil
	}
	return nil, nil, attachErr
}

// withFlag makes the hint about links name the flag.
func withFlag(err error) error {
	var refused *tree.RefusedError
	var e *spec.Error
	if errors.As(err, &refused) && refused.Reason == tree.BadSymlink && errors.As(err, &e) {
		c := *e
		c.Hint = "--omit-links leaves such links out"
		return &c
	}
	return err
}
