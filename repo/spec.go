package repo

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// keeper is a file in the directories of sessions' branches: git passes over it, and does
// not remove a directory that a container has mounted.
const keeper = ".berth"

// OnMachine makes the work tree the workdir of a place on this machine. Where that has a
// wall, git can commit inside of it. A repository that lies where commands behind that wall
// can write anyway, in a directory for temporary files or in one of s.WritableRoots, is
// CodeUnsupported there: nothing would protect its configuration and hooks.
func (w *Worktree) OnMachine(s *spec.Spec) error {
	if s.Isolation != spec.IsolationNone {
		for _, root := range append([]string{"/tmp", "/var/tmp", os.TempDir()}, s.WritableRoots...) {
			root, err := filepath.EvalSymlinks(root)
			if err == nil && (w.repo.common == root || strings.HasPrefix(w.repo.common, strings.TrimSuffix(root, "/")+"/")) {
				return &spec.Error{
					Code: spec.CodeUnsupported, Path: w.repo.common,
					Err:  fmt.Errorf("every command behind the wall can write to %s, and so to the repository's configuration and hooks", root),
					Hint: "keep the repository elsewhere; or work in it without a wall: --isolation none",
				}
			}
		}
	}
	s.Workdir = w.Dir
	return nil
}

// InContainer makes the work tree the workdir of a container, at the path that it has on
// this machine, and mounts what git needs to commit to the session's branches: objects,
// these branches and their logs, and what git keeps for the work tree. All else of the
// repository is read-only there: its configuration and hooks, other branches, tags and the
// stash, and by what the work tree and the repository find each other. So nothing of what
// runs in the container has git run a program in the repository outside.
//
// Git in the container is told by variables of the environment, unless there are others of
// these names, that the directory is trusted whoever owns it. What is written belongs to
// the container's user: Hardening.User should be the owner of the repository.
//
// Where the repository is not made of files as it should be the error is CodeUnsupported.
func (w *Worktree) InContainer(s *spec.Spec) error {
	common, admin := w.repo.common, w.repo.admin(w.admin)
	branches := filepath.Join(common, "refs", "heads", "berth")
	logs := filepath.Join(common, "logs", "refs", "heads", "berth")
	for _, dir := range []string{branches, logs} {
		if err := w.keep(dir); err != nil {
			return &spec.Error{Op: "mount", Path: w.Dir, Code: spec.CodeUnsupported, Err: err}
		}
	}
	if err := errors.Join(realDirs(common, "worktrees", w.admin), realDirs(common, "objects")); err != nil || !w.ready {
		return &spec.Error{Op: "mount", Path: w.Dir, Code: spec.CodeUnsupported, Err: errors.Join(errors.New("the work tree is not whole"), err)}
	}
	add := func(readOnly bool, paths ...string) {
		for _, path := range paths {
			s.Mounts = append(s.Mounts, spec.Mount{Source: path, Target: path, ReadOnly: readOnly})
		}
	}
	add(true, common)
	add(false, filepath.Join(common, "objects"), branches, logs, admin, w.Dir)
	add(true, filepath.Join(w.Dir, ".git"))
	for _, name := range []string{"commondir", "gitdir", "config.worktree", "locked"} {
		add(true, filepath.Join(admin, name))
	}
	s.Workdir = w.Dir
	if _, given := s.Env["GIT_CONFIG_COUNT"]; !given {
		env := maps.Clone(s.Env)
		if env == nil {
			env = map[string]string{}
		}
		for i, pair := range [][2]string{{"safe.directory", w.Dir}, {"gc.auto", "0"}} {
			n := strconv.Itoa(i)
			env["GIT_CONFIG_COUNT"] = strconv.Itoa(i + 1)
			env["GIT_CONFIG_KEY_"+n], env["GIT_CONFIG_VALUE_"+n] = pair[0], pair[1]
		}
		s.Env = env
	}
	return nil
}

// keep makes a directory of the repository, reached by no link, that git does not remove.
func (w *Worktree) keep(dir string) error {
	at := w.repo.common
	rel, err := filepath.Rel(at, dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(rel, 0o755); err != nil {
		return err
	}
	for ; rel != "."; rel = filepath.Dir(rel) {
		if err := realDirs(at, rel); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, keeper), os.O_CREATE|os.O_WRONLY|openQuietly, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
