package filescmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// copyFlags are the flags of cp.
type copyFlags struct {
	force, skip, recursive bool
}

// NewCp returns the verb cp.
func NewCp(env *verb.Env) *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   "cp [FLAG]... SRC... DST",
		Short: "Copy files into a sandbox, out of it, or inside",
		Long: `Cp copies files and whole directories, like cp -r: into DST where that is a directory,
else to the name DST. SRC/. means what is in a directory. Modes are kept.

` + pathsHelp + ` Everything else is a path of this machine; one with a colon
is written with a slash before it, ./a:b say. - is our input or output, as one file.

A file that exists is not overwritten, and nothing is copied then, unless --force is
given; directories are merged. A file is never there half. Links come out of a sandbox
as links if they stay inside what is copied; other links, links into a sandbox, FIFOs,
devices and sockets are refused before anything is copied, or left out with
--skip-special. A SRC that is a link itself is followed.`,
		Example: `  berth cp src session-1:            # to src in the workdir
  berth cp session-1:dist/. out     # what is in dist
  berth cp --force a.txt b.txt session-1:/tmp
  berth cp session-1:report.md session-1:old.md
  tar c . | berth cp - session-1:all.tar
  berth cp --json src session-1: | jq .files`,
		Args: needPaths(2, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newCopying(env, cmd, &flags)
			defer c.close()
			return c.run(cmd.Context(), args[:len(args)-1], args[len(args)-1])
		},
	}
	cmd.Flags().BoolVarP(&flags.force, "force", "f", false, "replace files that exist")
	cmd.Flags().BoolVar(&flags.skip, "skip-special", false, "leave out what cannot be copied, and say so")
	cmd.Flags().BoolVarP(&flags.recursive, "recursive", "r", true, "copy directories too, which is done anyway")
	_ = cmd.Flags().MarkHidden("recursive") // it is there
	cmd.ValidArgsFunction = (&completer{env: env, local: true}).complete
	return common(env, cmd)
}

// copying is one run of cp.
type copying struct {
	*places
	flags   *copyFlags
	started time.Time
	count   transfer.Counter
	closers []func()
	skipped int64
}

func newCopying(env *verb.Env, cmd *cobra.Command, flags *copyFlags) *copying {
	return &copying{places: newPlaces(env, cmd), flags: flags, started: time.Now()}
}

// copySummary is what was copied, as JSON has it.
type copySummary struct {
	Files       int64 `json:"files"`
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Skipped     int64 `json:"skipped"`
	Bytes       int64 `json:"bytes"`
	MS          int64 `json:"ms"`
}

func (c *copying) close() {
	for _, closer := range c.closers {
		closer()
	}
	c.places.close()
}

func (c *copying) run(ctx context.Context, args []string, last string) error {
	if last == "-" {
		return c.toOutput(ctx, args)
	}
	to, err := parseLocation(last)
	if err != nil {
		return err
	}
	if args[0] == "-" {
		return c.fromInput(ctx, args, to)
	}
	from := make([]location, len(args))
	for i, arg := range args {
		if from[i], err = sourceLocation(arg, to); err != nil {
			return err
		}
	}
	plans, err := c.prepare(ctx, from, to)
	if err != nil {
		return err
	}
	var total transfer.Summary
	for _, p := range plans {
		total.Add(p.Size())
	}
	progress := c.env.Poll(func() spec.Progress { return c.progress(total) })
	defer progress.Stop()
	for _, p := range plans {
		if err := p.Run(ctx, &c.count); err != nil {
			return err
		}
	}
	progress.Stop()
	total.Files, total.Bytes = c.count.Files.Load(), c.count.Bytes.Load()
	return c.report(total)
}

// prepare plans all copies before the first one is made.
func (c *copying) prepare(ctx context.Context, sources []location, to location) ([]*transfer.Plan, error) {
	progress := c.env.Progress("looking at what there is to copy")
	defer progress.Stop()
	target, err := c.target(ctx, to)
	if err != nil {
		return nil, err
	}
	o := transfer.Options{Force: c.flags.force}
	if c.flags.skip {
		o.Skip = c.skip
	}
	var plans []*transfer.Plan
	taken := map[string]bool{}
	for _, from := range sources {
		source, err := c.source(ctx, from)
		if err != nil {
			return nil, err
		}
		// A directory may become a new one under a name that says that it is one.
		if !target.IsDir() && (len(sources) > 1 || strings.HasSuffix(to.path, "/") && !source.IsDir()) {
			return nil, &spec.Error{Op: "copy", Path: to.String(), Code: spec.CodeNotDirectory, Hint: "make the directory first, or copy to a name"}
		}
		plan, err := transfer.Prepare(ctx, source, target, o)
		if err != nil {
			return nil, err
		}
		if taken[plan.Target] && source.Base() != "." { // what is in two directories may be put into one
			return nil, verb.Usage("two of the sources have the name %q", plan.Target)
		}
		taken[plan.Target] = true
		plans = append(plans, plan)
	}
	return plans, nil
}

func (c *copying) target(ctx context.Context, to location) (*transfer.Target, error) {
	if to.remote() {
		place, err := c.get(to.key)
		if err != nil {
			return nil, err
		}
		return place.Target(ctx, to.path)
	}
	target, closer, err := transfer.HostTarget(to.path)
	if err == nil {
		c.closers = append(c.closers, closer)
	}
	return target, err
}

// sourceLocation reads one of the paths that are copied.
func sourceLocation(arg string, to location) (location, error) {
	from, err := parseLocation(arg)
	switch {
	case err != nil:
	case arg == "-":
		err = verb.Usage("- stands for our input, which is copied by itself")
	case !from.remote() && !to.remote():
		err = verb.Usage("%q and %q are both on this machine: want KEY:PATH for a sandbox", arg, to.path)
	}
	return from, err
}

func (c *copying) source(ctx context.Context, from location) (*transfer.Source, error) {
	if !from.remote() {
		source, closer, err := transfer.HostSource(from.path)
		if err == nil {
			c.closers = append(c.closers, closer)
		}
		return source, err
	}
	place, err := c.get(from.key)
	if err != nil {
		return nil, err
	}
	return place.Source(ctx, from.path)
}

// skip tells of what is left out: the first few by name.
func (c *copying) skip(path, why string) {
	const shown = 10
	switch c.skipped++; {
	case c.skipped <= shown:
		c.env.Note("cp: left out %q: %s", path, why)
	case c.skipped == shown+1:
		c.env.Note("cp: more is left out")
	}
}

func (c *copying) progress(total transfer.Summary) spec.Progress {
	n, bytes := c.count.Files.Load(), c.count.Bytes.Load()
	p := spec.Progress{
		Step: "cp", Done: bytes, Total: total.Bytes,
		Message: fmt.Sprintf("%d of %d files, %s of %s", n, total.Files, console.Bytes(bytes), console.Bytes(total.Bytes)),
	}
	if total.Bytes == 0 {
		p.Done, p.Total = n, total.Files
	}
	return p
}

func (c *copying) report(s transfer.Summary) error {
	took := time.Since(c.started)
	if c.env.JSON {
		return c.env.Print(copySummary{
			Files: s.Files, Directories: s.Directories, Links: s.Links, Skipped: s.Skipped, Bytes: s.Bytes, MS: took.Milliseconds(),
		})
	}
	c.env.Detail("cp: %d files, %s in %s", s.Files, console.Bytes(s.Bytes), console.Short(took))
	return nil
}

// fromInput copies our input to a file.
func (c *copying) fromInput(ctx context.Context, args []string, to location) error {
	switch {
	case len(args) > 1:
		return verb.Usage("- stands for our input, which is copied by itself")
	case !to.remote():
		return verb.Usage("- and %q are both on this machine: want KEY:PATH for a sandbox", to.path)
	}
	fsys, err := c.files(to.key)
	if err != nil {
		return err
	}
	progress := c.env.Poll(func() spec.Progress {
		return spec.Progress{Step: "cp", Message: console.Bytes(c.count.Bytes.Load())}
	})
	defer progress.Stop()
	in := &counted{r: &input{ctx: ctx, r: c.env.Stdin}, n: &c.count.Bytes}
	if err := fsys.Write(ctx, to.path, in, 0, files.WriteOptions{AnySize: true, Exclusive: !c.flags.force}); err != nil {
		return explainExists(err)
	}
	progress.Stop()
	return c.report(transfer.Summary{Files: 1, Bytes: c.count.Bytes.Load()})
}

// toOutput copies files to our output.
func (c *copying) toOutput(ctx context.Context, args []string) error {
	if c.env.JSON {
		return verb.Usage("--json and the bytes of a file cannot both go to our output; berth cat --json does it")
	}
	for _, arg := range args {
		from, err := parseRemote(arg, false)
		if err != nil {
			return err
		}
		fsys, err := c.files(from.key)
		if err != nil {
			return err
		}
		f, err := fsys.Open(ctx, from.path, files.OpenOptions{})
		if err != nil {
			return err
		}
		_, err = io.Copy(c.env.Stdout, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
