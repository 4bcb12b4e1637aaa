// Package treecmd is the verbs for whole directories of a sandbox: export, import and
// manifest.
package treecmd

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// common are the flags that all verbs here have.
type common struct{ key string }

func (c *common) add(env *verb.Env, cmd *cobra.Command) *cobra.Command {
	verb.AddKey(cmd.Flags(), &c.key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	env.AddCompletions(cmd)
	return cmd
}

// filter are the flags that leave something out.
type filter struct {
	exclude   []string
	gitignore bool
}

func (f *filter) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.exclude, "exclude", nil, "leave out what matches `PATTERN`, as in \"berth files find\"; repeatable")
	cmd.Flags().BoolVar(&f.gitignore, "gitignore", false, "leave out what git would ignore, and .git")
}

// limits are the flags that bound an archive.
type limits struct {
	file, all int64
	entries   int
}

const mib = 1 << 20

func (l *limits) add(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&l.file, "max-file-mib", 256, "refuse an archive with a file of more than `N` MiB")
	cmd.Flags().Int64Var(&l.all, "max-mib", 1024, "refuse an archive of more than `N` MiB")
	cmd.Flags().IntVar(&l.entries, "max-entries", 1_000_000, "refuse an archive of more than `N` entries")
}

func (l *limits) limits() (tree.Limits, error) {
	const most = 1 << 40 // MiB: what fits
	if min(l.file, l.all, int64(l.entries)) < 1 || max(l.file, l.all) > most {
		return tree.Limits{}, verb.Usage("--max-file-mib, --max-mib and --max-entries are from 1 on")
	}
	return tree.Limits{FileBytes: l.file * mib, ArchiveBytes: l.all * mib, Entries: l.entries}, nil
}

// atMost takes at most n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return verb.Usage("unexpected argument %q", args[n])
		}
		return nil
	}
}

// argument is the i-th one; "" if it was not given.
func argument(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// summary is what an archive held, as JSON has it.
type summary struct {
	tree.Stats
	MS int64 `json:"ms"`
}

// moving is an archive under way, which is shown if it takes long.
type moving struct {
	env     *verb.Env
	what    string
	bytes   atomic.Int64
	started time.Time
	shown   *console.Progress
}

func move(env *verb.Env, what string) *moving {
	m := &moving{env: env, what: what, started: time.Now()}
	live := console.Terminal(env.Stderr)
	m.shown = env.Poll(func() spec.Progress {
		if !live { // where each message is a line of its own
			return spec.Progress{Step: m.what}
		}
		return spec.Progress{Step: m.what, Message: console.Bytes(m.bytes.Load())}
	})
	return m
}

// report says what was moved. The archive of an export may be our output: what is for a
// person goes beside it.
func (m *moving) report(s tree.Stats, done string) error {
	m.shown.Stop()
	took := time.Since(m.started)
	if m.env.JSON {
		return m.env.Print(summary{s, took.Milliseconds()})
	}
	m.env.Note("%s %s in %s with %s in %s", done, count(s.Files+s.Links, "file", "files"), count(s.Dirs, "directory", "directories"), console.Bytes(s.Bytes), console.Short(took))
	if s.Skipped > 0 {
		m.env.Note("%d left out: FIFOs, sockets, devices, or links that may lead out", s.Skipped)
	}
	return nil
}

// count says how many there are.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// counted counts what goes through.
type counted struct {
	m *moving
	r io.Reader
	w io.Writer
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.m.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.m.bytes.Add(int64(n))
	return n, err
}

// attach finds the sandbox.
func (c *common) attach(ctx context.Context, env *verb.Env) (*berth.Sandbox, error) {
	sb, _, err := env.Attach(ctx, c.key)
	return sb, err
}

// NewManifest returns the verb manifest.
func NewManifest(env *verb.Env) *cobra.Command {
	var c common
	var f filter
	cmd := &cobra.Command{
		Use:   "manifest --key KEY [FLAG]... [DIR]",
		Short: "List the files of a sandbox with their hashes, and hash the list",
		Long: `Manifest reads all regular files below DIR, or below the workdir, in the sandbox and
prints mode, size, SHA-256 and path of each, and last one hash of all. Two directories
with the same files have the same hash. A path that is not UTF-8 is an error.`,
		Example: `  berth manifest --key session-1
  berth manifest --key session-1 --json src | jq -r .hash`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			sb, err := c.attach(ctx, env)
			if err != nil {
				return err
			}
			defer verb.Detach(ctx, sb)
			progress := env.Progress("reading the files")
			m, err := sb.Manifest(ctx, argument(args, 0), tree.ManifestOptions{Exclude: f.exclude, Gitignore: f.gitignore})
			progress.Stop()
			if err != nil {
				return err
			}
			if env.JSON {
				return env.Print(m)
			}
			for _, e := range m.Entries {
				if err := env.Say("%04o %12d %s %s", e.Mode, e.Size, e.SHA256, console.Clean(e.Path)); err != nil {
					return err
				}
			}
			return env.Say("manifest of %d files: %s", len(m.Entries), m.Hash)
		},
	}
	f.add(cmd)
	return c.add(env, cmd)
}
