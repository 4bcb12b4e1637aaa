// Package mounts says in an engine's words what a spec mounts into a container, and in a
// spec's what an engine has mounted.
package mounts

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// Normal brings mounts into their one form and refuses those that would hide one of the
// guest's own directories.
func Normal(mounts []spec.Mount, own ...string) error {
	for i := range mounts {
		m := &mounts[i]
		m.Source, m.Target = path.Clean(m.Source), path.Clean(m.Target)
		for _, dir := range own {
			if Within(m.Target, dir) || Within(dir, m.Target) {
				return &spec.Error{Code: spec.CodeInvalidPath, Path: m.Target, Err: errors.New("a mount there would hide " + dir + ", which is the guest's")}
			}
		}
		if m.Shared && strings.Contains(m.Source+m.Target, ":") {
			return &spec.Error{Code: spec.CodeUnsupported, Path: m.Source, Err: errors.New("an engine takes no colon in the paths of a shared mount")}
		}
	}
	slices.SortFunc(mounts, byTarget)
	return nil
}

func byTarget(a, b spec.Mount) int { return strings.Compare(a.Target, b.Target) }

// Binds are mounts as the engine's, but for those that are to be relabelled: its newer way to
// say a mount has no word for that.
func Binds(mounts []spec.Mount) []mount.Mount {
	var out []mount.Mount
	for _, m := range mounts {
		if !m.Shared {
			out = append(out, Bind(m))
		}
	}
	return out
}

// Bind is one mount in the engine's newer way.
func Bind(m spec.Mount) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
}

// Shared are those that Binds leaves out, in the engine's older way.
func Shared(mounts []spec.Mount) []string {
	var out []string
	for _, m := range mounts {
		if m.Shared {
			out = append(out, m.Source+":"+m.Target+":z")
		}
	}
	return out
}

// Applied reports whether the mounts of a container are these, beside one at own that no spec
// asks for.
func Applied(mounts []spec.Mount, c *container.InspectResponse, own string) bool {
	binds := binds(c, own)
	return len(binds) == len(mounts) && !slices.ContainsFunc(mounts, func(m spec.Mount) bool {
		return !slices.ContainsFunc(binds, func(point container.MountPoint) bool {
			// An engine in a machine of its own has the source below another directory.
			return path.Clean(point.Destination) == m.Target && strings.HasSuffix(point.Source, m.Source) &&
				point.RW == !m.ReadOnly && relabelled(point) == m.Shared
		})
	})
}

// Of are the mounts of a container that its spec asked for: all but one at own.
func Of(c *container.InspectResponse, own string) []spec.Mount {
	var out []spec.Mount
	for _, point := range binds(c, own) {
		out = append(out, spec.Mount{Source: point.Source, Target: point.Destination, ReadOnly: !point.RW, Shared: relabelled(point)})
	}
	slices.SortFunc(out, byTarget)
	return out
}

func binds(c *container.InspectResponse, own string) []container.MountPoint {
	var out []container.MountPoint
	for _, point := range c.Mounts {
		if point.Type == mount.TypeBind && path.Clean(point.Destination) != own {
			out = append(out, point)
		}
	}
	return out
}

func relabelled(point container.MountPoint) bool {
	return slices.Contains(strings.Split(point.Mode, ","), "z")
}

// Covered reports whether a directory of a place is, or lies in, one that is mounted.
func Covered(mounts []spec.Mount, dir string) bool {
	return slices.ContainsFunc(mounts, func(m spec.Mount) bool { return Within(dir, m.Target) })
}

// Within reports whether p is dir or lies below it. Both are clean and absolute.
func Within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// strictTmp is /tmp under the strict profile. What is in it counts as the place's memory.
const strictTmp = "rw,noexec,nosuid,nodev,size=64m,mode=1777"

// Tmpfs is what a place has in memory: under the strict profile /tmp, unless something is
// mounted there.
func Tmpfs(s *spec.Spec) map[string]string {
	if s.Isolation != spec.IsolationStrict || Covered(s.Mounts, "/tmp") {
		return nil
	}
	return map[string]string{"/tmp": strictTmp}
}

// TmpfsApplied reports whether a container has what Tmpfs says, with every option.
func TmpfsApplied(s *spec.Spec, c *container.InspectResponse) bool {
	for target, want := range Tmpfs(s) {
		got := strings.Split(c.HostConfig.Tmpfs[target], ",")
		for option := range strings.SplitSeq(want, ",") {
			if !slices.Contains(got, option) {
				return false
			}
		}
	}
	return true
}
