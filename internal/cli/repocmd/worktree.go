package repocmd

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// NewWorktree returns the group of verbs for work trees.
func NewWorktree(env *verb.Env) *cobra.Command {
	return verb.Group(&cobra.Command{
		Use:   "worktree VERB",
		Short: "Make, list and remove git work trees for sandboxes",
		Long: `A work tree is a directory with the files of a git repository on a branch of its own,
berth/NAME, which shares the commits of the repository. "berth run --worktree NAME" and
"berth up --worktree NAME" make one, or use the one that there is, and work in it.`,
		Example: `  berth worktree add fix-1
  berth run --worktree fix-1 -- make test
  berth worktree ls
  berth worktree rm fix-1`,
	}, newAdd(env), newLs(env), newRm(env))
}

// from is the flag that says which repository is meant.
type from struct{ dir string }

func (f *from) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "repo", "", "`DIR` in the main work tree of the repository, or a bare repository (default: the current directory)")
}

// open opens the repository.
func (f *from) open(env *verb.Env) (*repo.Repository, error) {
	if env.Config.DataDir == "" {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: errors.New("there is no directory to keep work trees in"), Hint: "set HOME or BERTH_DATA_DIR"}
	}
	return repo.Open(cmp.Or(f.dir, "."), env.Config.DataDir)
}

// locations is the flag that says where a work tree lies.
func locations(flags *pflag.FlagSet, name string, location *string) {
	flags.StringVar(location, name, "", "where the work tree lies: data, under BERTH_DATA_DIR; beside the repository; or inside, in its .berth/worktrees (default: data)")
}

func newAdd(env *verb.Env) *cobra.Command {
	var f from
	var location string
	var o repo.WorktreeOptions
	cmd := &cobra.Command{
		Use:   "add [FLAG]... NAME",
		Short: "Make a work tree on a branch of its own",
		Long: `Add makes the branch berth/NAME and checks it out in a directory of its own, whose path it
prints. Git is told not to take it for lost where its directory is not seen.`,
		Example: `  berth worktree add fix-1
  berth worktree add --repo ~/src/project --base v1.2 --location inside old
  cd "$(berth worktree add try)"`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.open(env)
			if err != nil {
				return err
			}
			o.Name, o.Location = args[0], repo.Location(location)
			w, err := r.AddWorktree(cmd.Context(), o)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.Print(w)
			}
			return env.Say("%s", w.Dir)
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&o.Base, "base", "", "`COMMIT`, branch or tag that it begins at (default: what is checked out in the main work tree)")
	locations(cmd.Flags(), "location", &location)
	offerLocations(cmd, "location")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// entry is a work tree as JSON has it.
type entry struct {
	*repo.Worktree
	*repo.State
	Problem string `json:"problem,omitempty"` // why there is no state
}

func newLs(env *verb.Env) *cobra.Command {
	var f from
	cmd := &cobra.Command{
		Use:     "ls [FLAG]...",
		Aliases: []string{"list"},
		Short:   "List the work trees of a repository",
		Long: `Ls lists the work trees that berth has made of a repository, with how many commits each
has that its beginning did not have, and how many files are not committed. What git keeps
for a work tree is not believed: all files are read. The branches that are left of work
trees which were removed are named on stderr, but for --json.`,
		Example: `  berth worktree ls
  berth worktree ls --repo ~/src/project --json | jq -r .dir`,
		Args: verb.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd, env, &f) },
	}
	f.add(cmd.Flags())
	return cmd
}

func list(cmd *cobra.Command, env *verb.Env, f *from) error {
	r, err := f.open(env)
	if err != nil {
		return err
	}
	all, err := r.Worktrees(cmd.Context())
	if err != nil {
		return err
	}
	rows := [][]string{{"NAME", "BRANCH", "COMMITS", "CHANGES", "AGE", "DIR"}}
	for _, w := range all {
		e := entry{Worktree: w}
		s, err := w.State(cmd.Context())
		if cmd.Context().Err() != nil {
			return err
		}
		commits, changes := strconv.Itoa(s.Commits), strconv.Itoa(s.Changed)
		if e.State = &s; err != nil {
			e.State, e.Problem, commits, changes = nil, err.Error(), "?", "?"
			env.Note("%s: %v", w.Name, err)
		} else if s.Missing {
			changes = "gone"
		}
		if env.JSON {
			if err := env.Print(e); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{w.Name, w.Branch, commits, changes, console.Short(max(time.Since(w.Made), 0)), w.Dir})
	}
	if env.JSON {
		return nil
	}
	if len(all) == 0 {
		env.Note("no work trees")
	} else if err := env.Table(rows); err != nil {
		return err
	}
	kept, err := r.KeptBranches(cmd.Context())
	for _, branch := range kept {
		env.Note("the branch %s is kept of a work tree that was removed", branch)
	}
	return err
}

func newRm(env *verb.Env) *cobra.Command {
	var f from
	var o repo.RemoveOptions
	cmd := &cobra.Command{
		Use:     "rm [FLAG]... NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove work trees, unless something would be lost",
		Long: `Rm removes work trees and their branches. One with files that are not committed stays, as
does a branch with commits that no other branch has; --force removes both.`,
		Example: `  berth worktree rm fix-1
  berth worktree rm --force try-1 try-2`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return verb.Usage("want the NAME of a work tree")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.open(env)
			if err != nil {
				return err
			}
			return verb.Each(cmd.Context(), args, func(name string) error { return remove(cmd.Context(), env, r, name, o) })
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&o.Force, "force", false, "remove what would be lost, too")
	cmd.Flags().BoolVar(&o.KeepBranch, "keep-branch", false, "keep the branch, whatever it has")
	cmd.ValidArgsFunction = offerNames(env, &f)
	return cmd
}

func remove(ctx context.Context, env *verb.Env, r *repo.Repository, name string, o repo.RemoveOptions) error {
	w, err := r.Worktree(ctx, name)
	if err != nil {
		return err
	}
	left, err := w.Remove(ctx, o)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.Print(map[string]string{"removed": name, "branch": left.Branch})
	}
	if left.Branch != "" {
		env.Note("worktree rm: the branch %s is kept", left.Branch)
	}
	return env.Say("%s", name)
}

func oneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return verb.Usage("want the NAME of a work tree")
	}
	return nil
}

// offerNames completes names of work trees.
func offerNames(env *verb.Env, f *from) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if env.Prepare(cmd) != nil {
			return nil, directive
		}
		r, err := f.open(env)
		if err != nil {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), verb.CompletionTime)
		defer cancel()
		all, err := r.Worktrees(ctx)
		if err != nil {
			return nil, directive
		}
		var names []string
		for _, w := range all {
			names = append(names, w.Name+"\t"+console.Clean(w.Dir))
		}
		return names, directive
	}
}

// offerLocations completes a flag that says where a work tree lies.
func offerLocations(cmd *cobra.Command, flag string) {
	var values []string
	for _, l := range repo.Locations() {
		values = append(values, string(l))
	}
	offer(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func offer(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("repocmd: " + err.Error())
	}
}

// isDir reports whether there is a directory of that name here.
func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
