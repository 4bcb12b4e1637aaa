package repocmd

import (
	"context"
	"errors"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

// Flags are the flags by which a sandbox works on a git repository.
type Flags struct {
	from               from
	worktree, location string
	clone, ref         string
}

// Add adds the flags to a verb that makes a sandbox.
func (f *Flags) Add(env *verb.Env, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.worktree, "worktree", "", "work in the git work tree `NAME` of the repository --repo, on a branch of its own, berth/NAME; it is made if it is missing")
	f.from.add(flags)
	locations(flags, "worktree-location", &f.location)
	flags.StringVar(&f.clone, "clone", "", "clone the git repository `URL` here, and put it into the workdir, on this machine a new one that ends with the sandbox unless --workdir names an empty one; what is needed to get it stays here")
	flags.StringVar(&f.ref, "ref", "", "`REF` of --clone to check out: a branch, a tag or a commit's id")
	offerLocations(cmd, "worktree-location")
	offer(cmd, "worktree", offerNames(env, &f.from))
}

// Use is what one run of a verb has of a repository.
type Use struct {
	env      *verb.Env
	flags    *Flags
	worktree *repo.Worktree
	made     bool // the work tree, by this run
}

// Begin has a specification work on what the flags ask for; a work tree that is missing is
// made. chosen: the command line says which workdir is meant. The caller calls End.
func (f *Flags) Begin(ctx context.Context, env *verb.Env, s *berth.Spec, b all.Backend, chosen bool) (*Use, error) {
	u := &Use{env: env, flags: f}
	switch {
	case f.worktree != "" && f.clone != "":
		return nil, verb.Usage("--worktree and --clone exclude each other")
	case f.worktree == "" && (f.from.dir != "" || f.location != ""):
		return nil, verb.Usage("--repo and --worktree-location go with --worktree NAME")
	case f.clone == "" && f.ref != "":
		return nil, verb.Usage("--ref goes with --clone URL")
	case f.worktree != "" && chosen:
		return nil, verb.Usage("--worktree and --workdir exclude each other: the work tree is the workdir")
	case f.worktree != "" && !b.Local && !b.Container:
		return nil, verb.Usage("--worktree needs a sandbox that sees this machine's files, and %s has none: --clone URL puts a clone into it", b.Name)
	case f.clone != "" && b.Local && !chosen:
		s.Workdir = "" // a new one: the current directory is not empty, as a rule
	}
	if f.worktree == "" {
		return u, nil
	}
	if err := u.find(ctx); err != nil {
		return nil, err
	}
	place := u.worktree.InContainer
	if b.Local {
		place = u.worktree.OnMachine
	}
	if err := place(s); err != nil {
		u.End(ctx, false)
		return nil, err
	}
	return u, nil
}

// find finds the work tree, or makes it. One that others have made is kept for as long as
// they or we may work in it: until somebody removes it by its verb.
func (u *Use) find(ctx context.Context) error {
	r, err := u.flags.from.open(u.env)
	if err != nil {
		return err
	}
	o := repo.WorktreeOptions{Name: u.flags.worktree, Location: repo.Location(u.flags.location)}
	u.worktree, err = r.AddWorktree(ctx, o)
	if u.made = err == nil; u.made {
		u.env.Detail("the work tree %s is in %s", o.Name, u.worktree.Dir)
	}
	if spec.CodeOf(err) != spec.CodeExists {
		return err
	}
	w, found := r.Worktree(ctx, o.Name)
	switch {
	case spec.CodeOf(found) == spec.CodeNotFound:
		return err // what stands in the way is no work tree of ours
	case found != nil:
		return found
	}
	u.worktree = w
	return w.Join(ctx)
}

// Provision makes a sandbox, or finds the one that there is, and puts the clone into it. One
// that was made and could not be filled is of use to nobody, and is removed.
func (u *Use) Provision(ctx context.Context, d driver.Driver, provision func() (*berth.Sandbox, error)) (*berth.Sandbox, error) {
	if u.flags.clone == "" {
		return provision()
	}
	before, err := berth.List(ctx, d)
	if err != nil {
		return nil, err
	}
	sb, err := provision()
	if err != nil {
		return nil, err
	}
	if err = u.fill(ctx, sb); err == nil {
		return sb, nil
	}
	end := sb.Destroy
	if slices.ContainsFunc(before, func(o berth.Owned) bool { return o.ID == sb.ID() }) || spec.CodeOf(err) == spec.CodeExists && u.beingFilled(ctx, sb) {
		end = sb.Detach
	}
	if failed := verb.Cleanup(ctx, end); failed != nil {
		u.env.Note("the sandbox without its clone was not removed: %v", failed)
	}
	return nil, err
}

// beingFilled reports whether a sandbox holds a part of a clone: that of another run, which
// got there first.
func (u *Use) beingFilled(ctx context.Context, sb *berth.Sandbox) bool {
	_, err := sb.Files().Stat(ctx, path.Dir(repo.LastShipped), files.StatOptions{})
	return err == nil
}

// fill puts a clone into a sandbox that has none. One that is whole has its HEAD, which comes
// last.
func (u *Use) fill(ctx context.Context, sb *berth.Sandbox) error {
	switch _, err := sb.Files().Stat(ctx, repo.LastShipped, files.StatOptions{}); {
	case err == nil:
		u.env.Detail("the sandbox has a clone")
		return nil
	case !errors.Is(err, spec.ErrFileNotFound) && !errors.Is(err, spec.ErrNotDirectory):
		return err
	}
	from := u.flags.clone
	if !strings.Contains(from, "://") && isDir(from) {
		var err error
		if from, err = filepath.Abs(from); err != nil {
			return err
		}
	}
	p := u.env.Progress("cloning")
	defer p.Stop()
	p.Report(berth.Progress{Step: "clone", Message: "cloning the repository"})
	c, err := repo.Clone(ctx, repo.CloneOptions{URL: from, Ref: u.flags.ref, Token: u.token, Progress: p.Report})
	if err != nil {
		return err
	}
	defer c.Close()
	p.Report(berth.Progress{Step: "import", Message: "putting the clone into the sandbox"})
	stats, err := c.Ship(ctx, sb, "")
	p.Stop()
	if err == nil && stats.Skipped > 0 {
		u.env.Note("%d symbolic links that may lead out of the clone were left out", stats.Skipped)
	}
	u.env.Detail("cloned %s: %d files, %s", c.Commit, stats.Files, console.Bytes(stats.Bytes))
	return err
}

// token returns the secret for a host.
func (u *Use) token(ctx context.Context, host string) (string, error) {
	const patience, github = 5 * time.Second, "github.com"
	if token := u.env.Config.GitToken(host); token != "" || host != github {
		return token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "gh", "auth", "token", "--hostname", github)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil { // it is not there, or knows none: then the repository is asked for without one
		return "", nil
	}
	return strings.TrimSpace(string(out)), nil
}

// End is the end of the verb's work, once the sandbox is gone or has been let go. Unless
// it is kept, a work tree that this run has made is removed, if nothing is lost with it.
func (u *Use) End(ctx context.Context, keep bool) {
	if !u.made || keep {
		return
	}
	var left repo.Removed
	err := verb.Cleanup(ctx, func(ctx context.Context) (err error) {
		left, err = u.worktree.Remove(ctx, repo.RemoveOptions{Alone: true})
		return err
	})
	var loss *repo.LossError
	switch { // the rest is said anyway
	case errors.As(err, &loss):
		err = loss
	case errors.Is(err, repo.ErrJoined):
		err = repo.ErrJoined
	}
	switch {
	case err != nil:
		u.env.Note("the work tree %s is kept: %v", u.worktree.Dir, err)
		u.env.Note("to remove it: berth worktree rm --force --repo '%s' %s", u.worktree.Repository(), u.worktree.Name)
	case left.Branch != "":
		u.env.Note("what was committed is on the branch %s", left.Branch)
	}
}
