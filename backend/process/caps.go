package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// Probe implements driver.Driver. It runs the sandbox once, and remembers that it works.
func (b *backend) Probe(ctx context.Context) (spec.Caps, error) {
	caps := offered(spec.IsolationNone)
	err := b.walled.probe(ctx, b.o.Bwrap)
	switch {
	case ctx.Err() != nil:
		return spec.Caps{}, ctx.Err()
	case err != nil:
		reason := cause(err)
		if hint := spec.HintOf(err); hint != "" {
			reason += "; " + hint
		}
		for _, what := range []string{"guard", "network none", "writable_roots", "hidden_paths"} {
			caps = caps.AddMissing(what, reason)
		}
	default:
		guard := offered(spec.IsolationGuard)
		guard.Isolation |= caps.Isolation
		guard.Network |= caps.Network
		caps = guard
	}
	caps.OS, caps.Arch = runtime.GOOS, runtime.GOARCH
	return missing(caps), nil
}

// cause is the text of an error without its code.
func cause(err error) string {
	var e *spec.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

// missing says why what no level has cannot be had.
func missing(c spec.Caps) spec.Caps {
	for _, m := range [][2]string{
		{"jail", "this backend knows none and guard"},
		{"standard", "a level of containers: use the docker backend"},
		{"strict", "a level of containers: use the docker backend"},
		{"network limited", "there is no gate on this backend"},
		{"image", "this machine's own files are used: use the docker backend for an image"},
		{"limit_memory", "no cgroup is made for a process: use the docker backend"},
		{"limit_pids", "no cgroup is made for a process: use the docker backend"},
		{"limit_cpu", "no cgroup is made for a process: use the docker backend"},
		{"hardening", "these are knobs of a container: use the docker backend"},
	} {
		c = c.AddMissing(m[0], m[1])
	}
	return c
}

// offered says what can be asked for at one level.
func offered(level spec.Isolation) spec.Caps {
	c := spec.Caps{
		Backend: name, Isolation: spec.IsolationSet(level), Network: spec.NetworkSet(spec.NetworkOpen),
		KillTree: spec.KillTreeBestEffort, Keyed: true, Resume: true, WorkspaceRoot: true, Jobs: spec.JobsDurable,
	}
	if level == spec.IsolationGuard {
		c.Network = spec.NetworkSet(spec.NetworkNone, spec.NetworkOpen)
		c.WritableRoots, c.HiddenPaths, c.Shielded = true, true, true
	}
	return c
}

// inForce says what holds in one place.
func inForce(r place.Record) spec.Caps {
	c := offered(r.Isolation)
	c.Network = spec.NetworkSet(r.Network)
	if r.Ephemeral {
		c.Jobs = spec.JobsProcess
	}
	return c
}

// resolve returns the spec with its defaults filled in, or the refusal of what its level
// cannot enforce: what is possible at one level is not at the other.
func (b *backend) resolve(in *spec.Spec) (*spec.Spec, error) {
	s := in.Clone()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Isolation == spec.IsolationDefault {
		s.Isolation = spec.IsolationGuard
	}
	if s.Network == spec.NetworkDefault {
		s.Network = spec.NetworkOpen
		if s.Isolation == spec.IsolationGuard {
			s.Network = spec.NetworkNone
		}
	}
	level := s.Isolation
	if level != spec.IsolationNone {
		level = spec.IsolationGuard
	}
	caps := missing(offered(level))
	if level == spec.IsolationNone {
		for _, what := range []string{"network none", "writable_roots", "hidden_paths"} {
			caps = caps.AddMissing(what, "isolation none has no wall: use guard")
		}
	}
	if err := caps.Check(s); err != nil {
		return nil, err
	}
	if level == spec.IsolationGuard {
		if _, err := isolate.Find(b.o.Bwrap); err != nil {
			return nil, err
		}
	}
	if s.Workdir != "" {
		if level == spec.IsolationGuard {
			if err := isolate.CheckWorkdir(s.Workdir, slices.Concat(s.WritableRoots, b.temporary())); err != nil {
				return nil, err
			}
		}
		s.Workdir = canonical(s.Workdir)
		return s, checkWorkdir(s.Workdir)
	}
	return s, nil
}

// checkWorkdir refuses a workdir that does not exist: on a person's own machine that is
// a slip, and nothing is to be left of it.
func checkWorkdir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: errors.New("the workdir does not exist"), Hint: "mkdir -p " + dir + ", or name a directory that exists"}
	case err == nil && !info.IsDir():
		return &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: errors.New("the workdir is not a directory")}
	}
	return nil // what else is wrong with it, its use says
}

// canonical resolves the links in a path, of which the end may be missing.
func canonical(path string) string {
	path = filepath.Clean(path)
	for dir := path; ; dir = filepath.Dir(dir) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(resolved, strings.TrimPrefix(path, dir))
		}
		if dir == "/" {
			return path
		}
	}
}

// whyNot asks, after a guard that did not come up, whether one can be built at all: the
// answer to that says more than the guest's last words.
func (b *backend) whyNot(ctx context.Context, s *spec.Spec, err error) error {
	if s.Isolation != spec.IsolationGuard || spec.CodeOf(err) != spec.CodeUnavailable || ctx.Err() != nil {
		return err
	}
	if cause := isolate.Probe(ctx, b.o.Bwrap); spec.CodeOf(cause) == spec.CodeUnsupported {
		return cause
	}
	return err
}
