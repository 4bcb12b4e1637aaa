package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// strictMemory is the memory of a place under the strict profile, where nothing else is said.
const strictMemory = 2 << 30

// harden turns the strict profile into the knobs and limits that it stands for, and
// resolves the knobs. A limit of the profile is one that cannot be switched off.
func (d *Driver) harden(s *spec.Spec) error {
	h, most := &s.Hardening, d.limits
	h.User = cmp.Or(h.User, d.hardening.User)
	if s.Isolation == spec.IsolationStrict {
		if !d.engine.Libpod { // whose user namespace it may be that says who
			h.User = cmp.Or(h.User, engine.CallersUser())
		}
		h.DropCaps, h.ReadOnlyRoot = []string{"ALL"}, true
		most.PIDs, most.CPUMillis = cmp.Or(most.PIDs, DefaultLimits().PIDs), cmp.Or(most.CPUMillis, DefaultLimits().CPUMillis)
		most.MemoryBytes = cmp.Or(most.MemoryBytes, strictMemory)
	}
	l := &s.Limits
	l.PIDs, l.CPUMillis, l.MemoryBytes = cmp.Or(l.PIDs, most.PIDs), cmp.Or(l.CPUMillis, most.CPUMillis), cmp.Or(l.MemoryBytes, most.MemoryBytes)
	l.DiskBytes, l.GPUs = cmp.Or(l.DiskBytes, most.DiskBytes), cmp.Or(l.GPUs, most.GPUs)
	if err := engine.CheckLimits(*l); err != nil {
		return err
	}
	if err := account.Check(h.User); err != nil {
		return err
	}
	h.ReadOnlyRoot = h.ReadOnlyRoot || d.hardening.ReadOnlyRoot
	h.Runtime = cmp.Or(h.Runtime, d.hardening.Runtime)
	profile, err := engine.CompactProfile(cmp.Or(h.Seccomp, d.hardening.Seccomp))
	if err != nil {
		return err
	}
	h.Seccomp = profile
	h.DropCaps, err = engine.NormalCaps(append(slices.Clone(d.hardening.DropCaps), h.DropCaps...))
	// Where a capability is dropped it goes without saying: the same place has one form.
	h.NoNewPrivileges = (h.NoNewPrivileges || d.hardening.NoNewPrivileges) && len(h.DropCaps) == 0
	return err
}

// checkOffers refuses, before anything is made, what the engine does not have: what a spec
// says has been checked against a Probe, what Options say has not, nor have names.
func checkOffers(p *plan, o engine.Offers) error {
	l, runtime := p.spec.Limits, p.spec.Hardening.Runtime
	switch {
	case l.DiskBytes > 0 && o.NoDisk != "":
		return spec.New(spec.CodeUnsupported, "limit_disk: "+o.NoDisk)
	case l.GPUs != 0 && o.NoGPUs != "":
		return spec.New(spec.CodeUnsupported, "gpus: "+o.NoGPUs)
	// One that begins so is found by the engine without being listed.
	case runtime != "" && len(o.Runtimes) > 0 && !slices.Contains(o.Runtimes, runtime) && !strings.HasPrefix(runtime, "io.containerd."):
		return &spec.Error{
			Code: spec.CodeUnsupported, Err: fmt.Errorf("the engine has no runtime %s", runtime),
			Hint: fmt.Sprintf("it has %.256s; another one is made known to it in its own configuration", strings.Join(o.Runtimes, ", ")),
		}
	}
	return nil
}

// noKeepID adds to caps in what the strict profile falls short of what it is elsewhere.
func (d *Driver) noKeepID(caps spec.Caps) spec.Caps {
	if d.engine.Keeper() != "" {
		return caps
	}
	return caps.AddMissing("strict keep-id", "no user namespace keeps the caller's id, as the Podman of an ordinary user has one: unless a user is named, commands run as the caller's own ids, as "+engine.Nobody+" where that is root")
}

// unnamed reports whether the engine says who the user of a strict place is.
func unnamed(s *spec.Spec) bool {
	return s.Isolation == spec.IsolationStrict && s.Hardening.User == ""
}

// applied says whether one thing that was asked for took effect.
type applied struct {
	name string
	ok   bool
}

// knobsApplied holds a container against the knobs of its spec.
func knobsApplied(s *spec.Spec, c *container.InspectResponse) []applied {
	h, opts := c.HostConfig, c.HostConfig.SecurityOpt
	seccomp := !slices.ContainsFunc(opts, func(opt string) bool { return strings.HasPrefix(opt, "seccomp") })
	if s.Hardening.Seccomp != "" {
		seccomp = slices.ContainsFunc(opts, func(opt string) bool { return engine.IsProfile(opt, s.Hardening.Seccomp) })
	}
	disk, gpus := engine.DiskAndGPUs(h)
	return []applied{
		{engine.NoNewPrivileges, !engine.GainsNothing(s.Hardening) || slices.ContainsFunc(opts, engine.IsNoNewPrivileges)},
		{"seccomp", seccomp},
		{"runtime", s.Hardening.Runtime == "" || h.Runtime == s.Hardening.Runtime},
		{"limit_disk", disk == s.Limits.DiskBytes},
		{"gpus", gpus == s.Limits.GPUs && len(h.Devices) == 0},
		{"mounts", mounts.Applied(s.Mounts, c, directDir)},
		{"/tmp in memory", mounts.TmpfsApplied(s, c)},
		{"published_ports", engine.PortsApplied(s.Ports, c)},
	}
}

// hasLabels reports whether a container has the labels of its spec.
func hasLabels(s *spec.Spec, c *container.InspectResponse) bool {
	for name, value := range s.Labels {
		if got, ok := c.Config.Labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}
