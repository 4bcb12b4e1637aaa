package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// stateTimeout bounds how long it takes to find out what is in a work tree, whatever
	// is in it.
	stateTimeout = 2 * time.Minute
	// maxFiles is how many names of files a State has.
	maxFiles = 100
)

// State is what a work tree holds that its base does not.
type State struct {
	// Files are the first 100 of the files that differ from what is committed, in the
	// order of git; Changed is how many there are. What git ignores does not count.
	Files   []string `json:"files"`
	Changed int      `json:"changed"`
	// Commits are those that are checked out and that Base does not have.
	Commits int `json:"commits"`
	// Unnamed: some of them no branch and no tag has.
	Unnamed bool `json:"unnamed,omitempty"`
	// Missing: the directory is gone.
	Missing bool `json:"missing,omitempty"`
}

// Loses reports whether something would be lost with the work tree: a branch keeps what
// has been committed to it.
func (s State) Loses() bool { return s.Changed > 0 || s.Unnamed }

// State finds out what the work tree holds. It reads every file, and believes nothing that
// was written there: neither an index nor a configuration of the work tree is used, and no
// program is run but git. An answer takes at most two minutes, then it is CodeUnavailable;
// what cannot be read for what it should be is CodeInvalid.
func (w *Worktree) State(ctx context.Context) (State, error) {
	s, err := w.state(ctx)
	return s, spec.Wrap(err, "state", "", "", w.Dir)
}

func (w *Worktree) state(ctx context.Context) (State, error) {
	if !w.ready {
		return State{Missing: true}, nil
	}
	bounded, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	s, err := w.look(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = spec.New(spec.CodeUnavailable, fmt.Sprintf("what is in the work tree could not be found out within %v", stateTimeout))
	}
	return s, err
}

func (w *Worktree) look(ctx context.Context) (State, error) {
	s := State{Files: []string{}}
	head, err := w.head(ctx)
	if err != nil {
		return s, err
	}
	count, err := w.repo.git("rev-list", "--count", head, "^"+w.Base).run(ctx)
	if err != nil {
		return s, failed(err, spec.CodeInvalid)
	}
	if s.Commits, err = strconv.Atoi(strings.TrimSpace(count)); err != nil {
		return s, &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	unnamed, err := w.repo.git("rev-list", "--max-count=1", head, "^"+w.Base, "--not", "--branches", "--tags", "--remotes").run(ctx)
	if err != nil {
		return s, failed(err, spec.CodeInvalid)
	}
	s.Unnamed = unnamed != ""
	info, err := os.Lstat(w.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Missing = true
		return s, nil
	case err != nil:
		return s, fileError(err)
	case !info.IsDir():
		return s, spec.New(spec.CodeInvalid, "something else stands where the work tree was")
	}
	return s, w.changes(ctx, head, &s)
}

// branchName are the names of branches that are looked for; git's grammar has more.
var branchName = regexp.MustCompile(`^ref: (refs/heads/[A-Za-z0-9][A-Za-z0-9._/-]*)$`)

// head returns the commit that is checked out. HEAD is a file that a place writes.
func (w *Worktree) head(ctx context.Context) (string, error) {
	admin := w.repo.admin(w.admin)
	if err := realDirs(w.repo.common, "worktrees", w.admin); err != nil {
		return "", err
	}
	text, err := readSmall(filepath.Join(admin, "HEAD"))
	if err == nil && isID(text) {
		return text, nil
	}
	if name := branchName.FindStringSubmatch(text); err == nil && name != nil {
		id, err := w.repo.commit(ctx, name[1])
		if id != "" || err != nil {
			return id, err
		}
	}
	return "", spec.New(spec.CodeInvalid, "what is checked out in the work tree cannot be told")
}

// changes finds the files that differ from a commit, by an index that is made for that.
func (w *Worktree) changes(ctx context.Context, commit string, s *State) error {
	filters, err := w.repo.noFilters(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "berth-index-")
	if err != nil {
		return fileError(err)
	}
	defer os.RemoveAll(temp)
	git := func(args ...string) call {
		c := w.repo.git(args...)
		c.env = append(c.env, "GIT_INDEX_FILE="+filepath.Join(temp, "index"), "GIT_WORK_TREE="+w.Dir)
		c.config = slices.Concat(filters, []string{"core.sparseCheckout", "false", "core.bare", "false"})
		return c
	}
	if _, err := git("read-tree", commit).run(ctx); err != nil {
		return failed(err, spec.CodeInvalid)
	}
	c := git("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard", "--deduplicate")
	found := &names{}
	c.stdout, c.fatal = found, "could not open directory"
	if _, err := c.run(ctx); err != nil {
		return failed(err, spec.CodeInvalid)
	}
	s.Files, s.Changed = append(s.Files, found.first...), found.count
	return nil
}

// noFilters is configuration by which no filter that is configured is a program: a work
// tree's own attributes say which of its files go through which.
func (r *Repository) noFilters(ctx context.Context) ([]string, error) {
	list, err := r.git("config", "-z", "--name-only", "--get-regexp", `^filter\..`).run(ctx)
	var git *gitError
	if errors.As(err, &git) && git.status == 1 {
		return nil, nil // there is none
	}
	if err != nil {
		return nil, failed(err, spec.CodeInvalid)
	}
	var config []string
	for key := range strings.SplitSeq(list, "\x00") {
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			continue
		}
		value := ""
		if strings.EqualFold(key[i+1:], "required") {
			value = "false"
		}
		config = append(config, key, value)
	}
	return config, nil
}

// names takes a list of names that end with NUL.
type names struct {
	first []string
	count int
	part  []byte
}

func (n *names) Write(p []byte) (int, error) {
	written := len(p)
	for {
		i := bytes.IndexByte(p, 0)
		if i < 0 {
			break
		}
		if n.count++; len(n.first) < maxFiles {
			n.first = append(n.first, string(n.part)+string(p[:i]))
		}
		n.part, p = n.part[:0], p[i+1:]
	}
	if len(n.part)+len(p) <= spec.MaxPathBytes {
		n.part = append(n.part, p...)
	}
	return written, nil
}
