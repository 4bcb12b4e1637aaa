package filescmd

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
)

func newLs(env *verb.Env) *cobra.Command {
	var long, null bool
	cmd := &cobra.Command{
		Use:     "ls [FLAG]... KEY[:PATH]...",
		Aliases: []string{"list"},
		Short:   "List directories",
		Long: `Ls lists what is in a directory, names that begin with a dot too, in the order of their
bytes; of a file it shows the file. Without a path it is the workdir. --json gives an
object for each.`,
		Example: `  berth files ls session-1
  berth files ls --long session-1:/etc
  berth files ls --null session-1:src | xargs -0 -n1 echo`,
		Args: needPaths(1, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if long && null {
				return verb.Usage("want one of --long and --null")
			}
			p := newPlaces(env, cmd)
			defer p.close()
			out := newPrinter(env, null)
			err := verb.Each(cmd.Context(), args, func(arg string) error {
				l, err := parseRemote(arg, true)
				if err != nil {
					return err
				}
				place, err := p.get(l.key)
				if err != nil {
					return err
				}
				return list(cmd, place, l, out, long)
			})
			return out.flush(err)
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "mode, links, owner, size and time too")
	cmd.Flags().BoolVarP(&null, "null", "0", false, "names byte for byte, each ended by a NUL byte")
	return common(env, cmd)
}

func list(cmd *cobra.Command, place *transfer.Place, l location, out *printer, long bool) error {
	ctx := cmd.Context()
	info, err := place.Stat(ctx, l.path, true)
	if err != nil || !info.IsDir() {
		// A link that leads nowhere, or to a file, is shown itself.
		if info, err = place.Stat(ctx, l.path, false); err != nil {
			return err
		}
		return show(out, l.path, l.path, info, long)
	}
	progress := out.env.Progress("listing " + l.String())
	defer progress.Stop()
	entries, err := place.List(ctx, l.path, transfer.NewRoom())
	if err != nil {
		return err
	}
	progress.Stop()
	slices.SortFunc(entries, func(a, b files.Info) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if err := show(out, e.Name, transfer.Join(l.path, e.Name), e, long); err != nil {
			return err
		}
	}
	return nil
}

// show prints a file by name; path is the whole of it.
func show(out *printer, name, path string, info files.Info, long bool) error {
	switch {
	case out.env.JSON:
		return out.json(newFileLine(path, info))
	case long:
		return out.long(name, info)
	}
	return out.name(name)
}

func newStat(env *verb.Env) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "stat [FLAG]... KEY:PATH...",
		Short: "Describe files",
		Long:  `Stat says of a file what the sandbox knows of it; of a link, of the link itself.`,
		Example: `  berth files stat session-1:a.txt
  berth files stat --follow --json session-1:current | jq .size_bytes`,
		Args: needPaths(1, 0),
		RunE: onEach(env, 0, func(cmd *cobra.Command, _ []string, fsys files.FS, l location) error {
			info, err := fsys.Stat(cmd.Context(), l.path, files.StatOptions{Follow: follow})
			switch {
			case err != nil:
				return err
			case env.JSON:
				return env.Print(newFileLine(l.path, info))
			}
			return env.Table(rows(l.path, info))
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "L", false, "describe what a link points to")
	return common(env, cmd)
}
