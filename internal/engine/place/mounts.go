package place

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// strictTmp is /tmp under the strict profile. What is in it counts as the place's memory.
const strictTmp = "rw,noexec,nosuid,nodev,size=64m,mode=1777"

// normalMounts brings mounts into their one form and refuses those that would hide the
// guest or its state.
func normalMounts(mounts []spec.Mount) error {
	for i := range mounts {
		m := &mounts[i]
		m.Source, m.Target = path.Clean(m.Source), path.Clean(m.Target)
		for _, own := range []string{guestDir, stateDir} {
			if within(m.Target, own) || within(own, m.Target) {
				return &spec.Error{Code: spec.CodeInvalidPath, Path: m.Target, Err: errors.New("a mount there would hide " + own + ", which is the guest's")}
			}
		}
		if m.Shared && strings.Contains(m.Source+m.Target, ":") {
			return &spec.Error{Code: spec.CodeUnsupported, Path: m.Source, Err: errors.New("an engine takes no colon in the paths of a shared mount")}
		}
	}
	slices.SortFunc(mounts, func(a, b spec.Mount) int { return strings.Compare(a.Target, b.Target) })
	return nil
}

// bindMounts are the spec's mounts as the engine's, but for those that are to be
// relabelled: its newer way to say a mount has no word for that.
func bindMounts(mounts []spec.Mount) []mount.Mount {
	var out []mount.Mount
	for _, m := range mounts {
		if !m.Shared {
			out = append(out, bind(m))
		}
	}
	return out
}

func bind(m spec.Mount) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
}

// sharedBinds are the others, in the engine's older way.
func sharedBinds(mounts []spec.Mount) []string {
	var out []string
	for _, m := range mounts {
		if m.Shared {
			out = append(out, m.Source+":"+m.Target+":z")
		}
	}
	return out
}

// haveSources makes sure that the sources of shared mounts are there. In its older way the
// engine would make a directory of one that is not; a helper that has them in the newer
// way cannot be created.
func (d *Driver) haveSources(ctx context.Context, p *plan) error {
	var mounts []mount.Mount
	for _, m := range p.spec.Mounts {
		if m.Shared {
			mounts = append(mounts, bind(m))
		}
	}
	if len(mounts) == 0 {
		return nil
	}
	id, err := d.engine.Create(ctx, p.auth, helperOptions("berth-look-"+randomHex()[:12], p.spec.Image, mounts...))
	if err != nil {
		return badMount(p, err)
	}
	bg, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.CleanupLimit)
	defer cancel()
	return d.engine.Remove(bg, p.auth, id)
}

// badMount adds to the engine's refusal to create a container, where that talks of the
// source of a mount, whose path it is.
func badMount(p *plan, err error) error {
	e, ok := errors.AsType[*spec.Error](err)
	if !ok || !slices.ContainsFunc(p.spec.Mounts, func(m spec.Mount) bool { return strings.Contains(err.Error(), m.Source) }) {
		return err
	}
	return &spec.Error{Code: e.Code, Err: e.Err, Hint: "the source of a mount is a path of the machine that the engine runs on, and has to be there"}
}

// mountsApplied reports whether the mounts of a container are those of the spec.
func mountsApplied(mounts []spec.Mount, c *container.InspectResponse) bool {
	binds := 0
	for _, point := range c.Mounts {
		if point.Type == mount.TypeBind {
			binds++
		}
	}
	return binds == len(mounts) && !slices.ContainsFunc(mounts, func(m spec.Mount) bool {
		return !slices.ContainsFunc(c.Mounts, func(point container.MountPoint) bool {
			relabelled := slices.Contains(strings.Split(point.Mode, ","), "z")
			// An engine in a machine of its own has the source below another directory.
			return point.Type == mount.TypeBind && path.Clean(point.Destination) == m.Target && strings.HasSuffix(point.Source, m.Source) &&
				point.RW == !m.ReadOnly && relabelled == m.Shared
		})
	})
}

// placeMounts are the mounts of a container that its spec asked for.
func placeMounts(c *container.InspectResponse) []spec.Mount {
	var out []spec.Mount
	for _, point := range c.Mounts {
		if point.Type == mount.TypeBind {
			out = append(out, spec.Mount{
				Source: point.Source, Target: point.Destination, ReadOnly: !point.RW,
				Shared: slices.Contains(strings.Split(point.Mode, ","), "z"),
			})
		}
	}
	slices.SortFunc(out, func(a, b spec.Mount) int { return strings.Compare(a.Target, b.Target) })
	return out
}

// covered reports whether a directory of a place is, or lies in, one that is mounted.
func covered(mounts []spec.Mount, dir string) bool {
	return slices.ContainsFunc(mounts, func(m spec.Mount) bool { return within(dir, m.Target) })
}

// tmpfs is what a place has in memory: under the strict profile /tmp, unless something is
// mounted there.
func tmpfs(s *spec.Spec) map[string]string {
	if s.Isolation != spec.IsolationStrict || covered(s.Mounts, "/tmp") {
		return nil
	}
	return map[string]string{"/tmp": strictTmp}
}

// tmpfsApplied reports whether a container has what tmpfs says, with every option.
func tmpfsApplied(s *spec.Spec, c *container.InspectResponse) bool {
	for target, want := range tmpfs(s) {
		got := strings.Split(c.HostConfig.Tmpfs[target], ",")
		for option := range strings.SplitSeq(want, ",") {
			if !slices.Contains(got, option) {
				return false
			}
		}
	}
	return true
}
