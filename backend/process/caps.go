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
	"sync"

	"github.com/berth-dev/berth/internal/isolate"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// walls are the levels that are one, the default first.
var walls = []spec.Isolation{spec.IsolationGuard, spec.IsolationJail}

// Probe implements driver.Driver. It runs the sandbox of each level once, and remembers
// that it works.
func (b *backend) Probe(ctx context.Context) (spec.Caps, error) {
	caps := offered(spec.IsolationNone)
	errs := make([]error, len(walls))
	var trials sync.WaitGroup
	for i, level := range walls {
		trials.Go(func() { _, errs[i] = b.wall(ctx, level) })
	}
	trials.Wait()
	if ctx.Err() != nil {
		return spec.Caps{}, ctx.Err()
	}
	for i, level := range walls {
		if errs[i] == nil {
			walled := offered(level)
			walled.Isolation |= caps.Isolation
			walled.Network |= caps.Network
			caps = walled
		}
	}
	for i, level := range walls {
		if errs[i] != nil {
			caps = caps.AddMissing(string(level), reason(errs[i]))
		}
	}
	if !caps.WritableRoots { // there is no wall at all
		for _, what := range []string{"network none", "writable_roots", "hidden_paths"} {
			caps = caps.AddMissing(what, reason(errs[0]))
		}
	}
	caps.OS, caps.Arch = runtime.GOOS, runtime.GOARCH
	return missing(b.limited.offer(ctx, caps)), nil
}

// reason is why something cannot be had, and what cures it.
func reason(err error) string {
	if hint := spec.HintOf(err); hint != "" {
		return cause(err) + "; " + hint
	}
	return cause(err)
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
		{"standard", "a level of containers: use the docker backend"},
		{"strict", "a level of containers: use the docker backend"},
		{"network limited", "there is no gate on this backend"},
		{"image", "this machine's own files are used: use the docker backend for an image"},
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
		KillTree: spec.KillTreeBestEffort, Keyed: true, Resume: true, NativePrograms: true, WorkspaceRoot: true, Jobs: spec.JobsDurable, Terminals: true, Watch: true, Trees: true, Ports: true, Events: true,
	}
	if slices.Contains(walls, level) {
		c.Network = spec.NetworkSet(spec.NetworkNone, spec.NetworkOpen)
		c.WritableRoots, c.HiddenPaths, c.Shielded, c.ConfinedSockets = true, true, true, true
	}
	return c
}

// inForce says what holds in one place.
func inForce(r place.Record) spec.Caps {
	c := limits(offered(r.Isolation), r.Limits)
	c.Network = spec.NetworkSet(r.Network)
	if r.Ephemeral {
		c.Jobs = spec.JobsProcess
	}
	return c
}

// resolve returns the spec with its defaults filled in, or the refusal of what its level
// cannot enforce: what is possible at one level is not at the other.
func (b *backend) resolve(ctx context.Context, in *spec.Spec) (*spec.Spec, error) {
	s := in.Clone()
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Isolation == spec.IsolationDefault {
		s.Isolation = spec.IsolationGuard
	}
	if s.Network == spec.NetworkDefault {
		s.Network = spec.NetworkOpen
		if slices.Contains(walls, s.Isolation) {
			s.Network = spec.NetworkNone
		}
	}
	level := s.Isolation
	if level != spec.IsolationNone && !slices.Contains(walls, level) {
		level = walls[0] // which says why it cannot be had
	}
	caps := missing(offered(level))
	if level == spec.IsolationNone {
		for _, what := range []string{"network none", "writable_roots", "hidden_paths"} {
			caps = caps.AddMissing(what, "isolation none has no wall: use guard")
		}
	}
	if s.Limits != (spec.Limits{}) {
		caps = b.limited.offer(ctx, caps)
	}
	if err := caps.Check(s); err != nil {
		return nil, err
	}
	if level != spec.IsolationNone {
		if _, err := isolate.Find(b.o.Bwrap); err != nil {
			return nil, err
		}
	}
	switch {
	case s.Workdir == "":
		return s, nil
	case level == spec.IsolationNone:
		s.Workdir = canonical(s.Workdir)
	default: // it is followed once: a command of another place may swap what is on the way
		dir, err := isolate.ResolveWorkdir(s.Workdir, slices.Concat(s.WritableRoots, b.temporary()))
		if err != nil {
			return nil, err
		}
		s.Workdir = dir
	}
	return s, checkWorkdir(s.Workdir)
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

// whyNot asks, after a wall that did not come up, whether one can be built at all: the
// answer to that says more than the guest's last words.
func (b *backend) whyNot(ctx context.Context, s *spec.Spec, err error) error {
	if s.Isolation == spec.IsolationNone || spec.CodeOf(err) != spec.CodeUnavailable || ctx.Err() != nil {
		return err
	}
	if _, cause := b.tried(ctx, s.Isolation, isolate.Probe); spec.CodeOf(cause) == spec.CodeUnsupported {
		return cause
	}
	return err
}
