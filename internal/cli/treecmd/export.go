package treecmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

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
our output or to a file, which appears under its name only when it is whole. What comes
out of the sandbox is checked on the way: an archive that "berth import" would refuse is
an error. Owners are not kept; FIFOs, sockets and devices are left out. The archive on
our output is whole if the exit status is 0.`,
		Example: `  berth export --key session-1 -o work.tar
  berth export --key session-1 --gitignore src | tar tv
  berth export --key session-1 --zero-times | sha256sum`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return export(cmd, env, &f, argument(args, 0)) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `FILE`, which is replaced when the archive is whole; \"\" or -: our output")
	cmd.Flags().BoolVar(&f.zeroTimes, "zero-times", false, "leave times out, so that the same files give the same archive")
	cmd.Flags().BoolVar(&f.omit, "omit-links", false, "leave out links that lead out of DIR instead of failing")
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
	sb, err := f.attach(ctx, env)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	to, keep := env.Stdout, func() error { return nil }
	if !stdout {
		file, err := newFile(f.output)
		if err != nil {
			return err
		}
		defer file.discard()
		to, keep = file.File, file.keep
		// Where the file lies in what is exported its own beginning is nobody's file.
		f.exclude = append(f.exclude, "**/"+filepath.Base(file.Name()))
	}
	m := move(env, "export")
	defer m.shown.Stop()
	stats, err := sb.Export(ctx, dir, counted{m: m, w: to}, tree.ExportOptions{
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

// file is one that gets its name when it is whole.
type file struct {
	*os.File
	name string
}

func newFile(name string) (*file, error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".berth-export-*")
	if err != nil {
		return nil, outputError(name, err)
	}
	return &file{f, name}, nil
}

// keep gives the file its name. It stays readable by its owner only, as it was made: what
// is in a sandbox is nobody else's by default.
func (f *file) keep() error {
	err := f.Close()
	if err == nil {
		err = os.Rename(f.Name(), f.name)
	}
	return outputError(f.name, err)
}

// discard removes what has no name of its own.
func (f *file) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

func outputError(name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		err = l.Err
	}
	if err == nil {
		return nil
	}
	code := spec.CodeUnavailable
	if errors.Is(err, fs.ErrPermission) {
		code = spec.CodePermission
	}
	return &spec.Error{Op: "write", Path: name, Code: code, Err: err}
}
