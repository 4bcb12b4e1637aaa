package filescmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/transfer"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// New returns the group files.
func New(env *verb.Env) *cobra.Command {
	return verb.Group(&cobra.Command{
		Use:   "files COMMAND ...",
		Short: "List, find, search, change and watch files of a sandbox",
		Long: `Files works on the files of a sandbox without a shell there.

` + pathsHelp + ` What goes to a person has odd bytes of names shown as escapes; --null gives
names byte for byte, and --json has path_b64 where a name is not UTF-8.`,
		Example: `  berth files ls --long session-1:src
  berth files find session-1: '**/*.go' --gitignore
  berth files grep -i 'todo' session-1:src
  berth files mv session-1:a session-1:b`,
	},
		newLs(env), newFind(env), newGrep(env), newStat(env), newMkdir(env), newMove(env), newCopy(env), newRemove(env), newChmod(env), newWatch(env),
	)
}

// onEach makes a RunE that does something to each KEY:PATH of the command line, and
// goes on after one that fails.
func onEach(env *verb.Env, skip int, do func(cmd *cobra.Command, args []string, fsys files.FS, l location) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p := newPlaces(env, cmd)
		defer p.close()
		return verb.Each(cmd.Context(), args[skip:], func(arg string) error {
			l, err := parseRemote(arg, false)
			if err != nil {
				return err
			}
			fsys, err := p.files(l.key)
			if err != nil {
				return err
			}
			return do(cmd, args, fsys, l)
		})
	}
}

func newMkdir(env *verb.Env) *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use:   "mkdir [FLAG]... KEY:DIR...",
		Short: "Make directories",
		Long:  `Mkdir makes directories with the mode 0755.`,
		Example: `  berth files mkdir session-1:out
  berth files mkdir -p session-1:a/b/c`,
		Args: needPaths(1, 0),
		RunE: onEach(env, 0, func(cmd *cobra.Command, _ []string, fsys files.FS, l location) error {
			return fsys.Mkdir(cmd.Context(), l.path, files.MkdirOptions{Parents: parents})
		}),
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents too; a directory that exists is no error")
	return common(env, cmd)
}

func newRemove(env *verb.Env) *cobra.Command {
	var recursive, force bool
	cmd := &cobra.Command{
		Use:   "rm [FLAG]... KEY:PATH...",
		Short: "Remove files and directories",
		Long: `Rm removes files, links and empty directories; with --recursive also directories and
all that is in them, never following a link.`,
		Example: `  berth files rm session-1:a.txt session-1:b.txt
  berth files rm -r session-1:node_modules
  berth files rm -rf session-1:maybe`,
		Args: needPaths(1, 0),
		RunE: onEach(env, 0, func(cmd *cobra.Command, _ []string, fsys files.FS, l location) error {
			progress := env.Progress("removing " + l.String())
			defer progress.Stop()
			err := fsys.Remove(cmd.Context(), l.path, files.RemoveOptions{Recursive: recursive})
			if force && spec.CodeOf(err) == spec.CodeFileNotFound {
				return nil
			}
			return explain(err, spec.CodeExists, "--recursive removes a directory and all that is in it")
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and all that is in them")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "a path that does not exist is no error")
	return common(env, cmd)
}

func newChmod(env *verb.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chmod [FLAG]... MODE KEY:PATH...",
		Short: "Set the permission bits of files",
		Long:  `Chmod sets the nine permission bits, given in octal. It follows a link.`,
		Example: `  berth files chmod 0755 session-1:run.sh
  berth files chmod 600 session-1:key session-1:token`,
		Args: needPaths(2, 0),
	}
	run := onEach(env, 1, func(cmd *cobra.Command, args []string, fsys files.FS, l location) error {
		mode, err := parseMode(args[0])
		if err != nil {
			return err
		}
		return files.Chmod(cmd.Context(), fsys, l.path, mode)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := parseMode(args[0]); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return common(env, cmd)
}

// two reads the command line of a verb for two paths in one sandbox, and says where the
// second is if it is a directory that exists.
func (p *places) two(ctx context.Context, args []string) (place *transfer.Place, from, to location, err error) {
	if from, err = parseRemote(args[0], false); err != nil {
		return nil, from, to, err
	}
	if to, err = parseRemote(args[1], false); err != nil {
		return nil, from, to, err
	}
	if from.key != to.key {
		return nil, from, to, verb.Usage("%q and %q are in two sandboxes; berth cp copies from one to the other", args[0], args[1])
	}
	place, err = p.get(from.key)
	return place, from, to, err
}

func newMove(env *verb.Env) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "mv [FLAG]... KEY:OLD KEY:NEW",
		Short: "Move a file or a directory inside a sandbox",
		Long: `Mv gives a file, a link or a directory a new name; if that is a directory that exists,
it is moved into it. A file that exists is not overwritten, which is checked in one
step with the move, unless --force is given.`,
		Example: `  berth files mv session-1:draft.md session-1:final.md
  berth files mv --force session-1:new.conf session-1:/etc/app.conf`,
		Args: needPaths(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := newPlaces(env, cmd)
			defer p.close()
			place, from, to, err := p.two(cmd.Context(), args)
			if err != nil {
				return err
			}
			name, err := into(cmd.Context(), place.FS, from.path, to.path)
			if err != nil {
				return err
			}
			err = place.FS.Rename(cmd.Context(), from.path, name, files.RenameOptions{Overwrite: force})
			return explainExists(err)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace what exists")
	return common(env, cmd)
}

// into returns to, or if that is a directory the name of from in it.
func into(ctx context.Context, fsys files.FS, from, to string) (string, error) {
	info, err := fsys.Stat(ctx, to, files.StatOptions{Follow: true})
	switch {
	case spec.CodeOf(err) == spec.CodeFileNotFound:
		return to, nil
	case err != nil || !info.IsDir():
		return to, err
	}
	return transfer.Into(to, from), nil
}

func newCopy(env *verb.Env) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "cp [FLAG]... KEY:OLD KEY:NEW",
		Short: "Copy a file or a directory inside a sandbox",
		Long: `Cp copies a file, or a directory with all that is in it, inside a sandbox: what
"berth cp" does with two paths of it. If NEW is a directory that exists, the copy is
made in it. Links stay links. A file that exists is not overwritten unless --force is
given.`,
		Example: `  berth files cp session-1:a.txt session-1:b.txt
  berth files cp session-1:template session-1:project`,
		Args: needPaths(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := newCopying(env, cmd, &copyFlags{force: force})
			defer c.close()
			if _, _, _, err := c.two(cmd.Context(), args); err != nil {
				return err
			}
			return c.run(cmd.Context(), args[:1], args[1])
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace files that exist")
	return common(env, cmd)
}

// explain adds a hint to an error with a code that brings none.
func explain(err error, code spec.Code, hint string) error {
	if spec.CodeOf(err) != code || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = hint
	return e
}

func explainExists(err error) error {
	return explain(err, spec.CodeExists, "--force replaces files that exist")
}
