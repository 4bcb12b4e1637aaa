package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The defaults of CloneOptions.
const (
	DefaultCloneBytes   = 1 << 30
	DefaultCloneTimeout = 5 * time.Minute
)

// CloneOptions say what is cloned.
type CloneOptions struct {
	// URL is https://HOST/PATH, ssh://[USER@]HOST/PATH, [USER@]HOST:PATH, or a directory
	// of this machine by its absolute path or as file:///PATH. http is taken where the host
	// is a loopback address. One that holds credentials is refused.
	URL string
	// Ref is the branch or tag to check out, or the whole id of a commit. "": what the
	// repository's HEAD is.
	Ref string
	// Depth is how many commits of the history come along. 0: all.
	Depth int
	// Token returns the secret for a host, with its port if the URL has one, or "". It is
	// called once, and only for a URL by HTTP; the secret is given to that host alone, as
	// the password of Username. nil: there is none.
	Token    func(ctx context.Context, host string) (string, error)
	Username string // "": "x-access-token"

	// MaxBytes bounds what lands on this machine, the repository and its checked out files
	// together, each counted with 512 bytes more. 0: 1 GiB.
	MaxBytes int64
	// Timeout bounds the whole. 0: 5 minutes.
	Timeout time.Duration
	// TempDir is where the clone lies until it is closed. "": that of the system.
	TempDir string
	// Progress, which may be nil, is told now and then, from another goroutine, how many
	// bytes have landed.
	Progress func(spec.Progress)
}

// Cloned is a clone on this machine. Close removes it.
type Cloned struct {
	// URL is where it comes from, as its configuration has it.
	URL string
	// Commit is the id of the commit that is checked out; "": the repository is empty.
	Commit string

	temp  string
	limit int64
}

// Clone makes a clone in a directory of its own that only this user can read. Submodules,
// hooks, filters and large files of LFS are left out, and so is the user's configuration of
// git: ssh is used as it is set up here, but asks nothing.
//
// A repository or Ref that there is not is CodeNotFound, as it is where a host hides what
// it does not show; CodePermission: the host wants other credentials; CodeTooLarge: more
// has come than MaxBytes; CodeUnavailable: the host cannot be reached, or Timeout has
// passed; CodeUnsupported: there is no git. After an error, also after ctx has ended,
// nothing is left.
func Clone(ctx context.Context, o CloneOptions) (*Cloned, error) {
	o.MaxBytes, o.Timeout, o.Username = cmp.Or(o.MaxBytes, DefaultCloneBytes), cmp.Or(o.Timeout, DefaultCloneTimeout), cmp.Or(o.Username, "x-access-token")
	from, err := parseSource(o.URL)
	if err == nil {
		err = checkRef(o.Ref)
	}
	if err == nil && min(o.MaxBytes, int64(o.Timeout), int64(o.Depth)) < 0 {
		err = spec.New(spec.CodeInvalid, "a negative bound of a clone")
	}
	if err != nil {
		return nil, spec.Wrap(err, "clone", "", "", "")
	}
	temp, err := os.MkdirTemp(o.TempDir, "berth-clone-")
	if err != nil {
		return nil, spec.Wrap(fileError(err), "clone", "", "", "")
	}
	c := &Cloned{URL: from.text, temp: temp, limit: o.MaxBytes}
	if err := c.get(ctx, from, o); err != nil {
		if left := c.Close(); left != nil {
			err = errors.Join(err, left)
		}
		return nil, spec.Wrap(err, "clone", "", "", "")
	}
	return c, nil
}

// Dir is the work tree of the clone.
func (c *Cloned) Dir() string { return filepath.Join(c.temp, "tree") }

// Close removes the clone from this machine. It may be called again.
func (c *Cloned) Close() error { return spec.Wrap(removeTree(c.temp), "close", "", "", c.temp) }

// get clones within the bounds of o.
func (c *Cloned) get(ctx context.Context, from source, o CloneOptions) error {
	bounded, cancel := context.WithTimeoutCause(ctx, o.Timeout, spec.New(spec.CodeUnavailable, fmt.Sprintf("the clone was not there within %v", o.Timeout)))
	defer cancel()
	remote := &remote{from: from, env: []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ALLOW_PROTOCOL=" + from.protocol, "GIT_LFS_SKIP_SMUDGE=1"}}
	if from.host != "" && o.Token != nil {
		token, err := o.Token(bounded, from.host)
		if err != nil {
			return err
		}
		if err := remote.authorize(o.Username, token); err != nil {
			return err
		}
	}
	metered, stop := meter(bounded, c.temp, o.MaxBytes, o.Progress)
	err := c.steps(metered, remote, o)
	if over := stop(); over != nil {
		return over
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return context.Cause(bounded)
	}
	return err
}

// steps are the calls of git: only those that speak with the host know a secret.
func (c *Cloned) steps(ctx context.Context, r *remote, o CloneOptions) error {
	depth := []string{}
	if o.Depth > 0 {
		depth = []string{"--depth", strconv.Itoa(o.Depth)}
	}
	args := slices.Concat([]string{"clone", "--quiet", "--no-checkout", "--no-local", "--template=", "--origin", "origin"}, depth)
	target, byID := "HEAD", isID(o.Ref)
	switch {
	case byID:
		target = o.Ref
	case o.Ref != "":
		args = append(args, "--branch", o.Ref)
	}
	if _, err := r.git(c.temp, append(args, "--", r.from.text, c.Dir())...).run(ctx); err != nil {
		return explain(err)
	}
	here := &Repository{common: filepath.Join(c.Dir(), ".git"), top: c.Dir()}
	local := func(args ...string) call {
		call := here.git(args...)
		call.dir, call.env, call.long = c.Dir(), slices.Concat(call.env, r.env, []string{"GIT_WORK_TREE=" + c.Dir()}), true
		return call
	}
	if byID {
		if has, err := here.commit(ctx, o.Ref); err != nil {
			return err
		} else if has == "" {
			if _, err := r.git(c.Dir(), slices.Concat([]string{"fetch", "--quiet", "--no-tags"}, depth, []string{"origin", o.Ref})...).run(ctx); err != nil {
				return explain(err)
			}
		}
	}
	var err error
	if c.Commit, err = here.commit(ctx, target); err != nil || c.Commit == "" {
		return err // of an empty repository there is nothing to check out
	}
	filters, err := here.noFilters(ctx)
	if err != nil {
		return err
	}
	checkout := local("reset", "--hard", "--quiet", "HEAD")
	if byID {
		checkout = local("checkout", "--quiet", "--force", "--detach", c.Commit)
	}
	checkout.config = append(filters, "core.logAllRefUpdates", "false", "submodule.recurse", "false")
	_, err = checkout.run(ctx)
	return failed(err, spec.CodeInvalid)
}

// explain gives a failure of a git that spoke with a host the code that its words stand
// for. They are English: git was told so.
func explain(err error) error {
	var git *gitError
	if !errors.As(err, &git) {
		return err
	}
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(git.words, p) })
	}
	e := &spec.Error{Code: spec.CodeUnavailable, Err: git}
	switch {
	case says("Authentication failed", "could not read Username", "could not read Password", "error: 403", "error: 401", "Permission denied"):
		e.Code, e.Hint = spec.CodePermission, "the host wants credentials that may read the repository"
	case says("not found", "does not exist", "does not appear to be a git repository", "Remote branch", "not our ref", "couldn't find remote ref"):
		e.Code, e.Hint = spec.CodeNotFound, "is that the name of a repository, and of what it has? where one is not shown to everybody, the host may want credentials to show it"
	}
	return e
}
