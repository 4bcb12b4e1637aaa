package place

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// strictMemory is the memory of a place under the strict profile, where nothing else is said.
const strictMemory = 2 << 30

// nobody is the user of a strict place whose caller is root.
const nobody = "65534:65534"

// harden turns the strict profile into the knobs and limits that it stands for, and
// resolves the knobs. A limit of the profile is one that cannot be switched off.
func (d *Driver) harden(s *spec.Spec) error {
	h, most := &s.Hardening, d.limits
	h.User = cmp.Or(h.User, d.hardening.User)
	if s.Isolation == spec.IsolationStrict {
		h.User = cmp.Or(h.User, ownUser())
		h.DropCaps, h.ReadOnlyRoot = []string{"ALL"}, true
		most.PIDs, most.CPUMillis = cmp.Or(most.PIDs, DefaultLimits().PIDs), cmp.Or(most.CPUMillis, DefaultLimits().CPUMillis)
		most.MemoryBytes = cmp.Or(most.MemoryBytes, strictMemory)
	}
	l := &s.Limits
	l.PIDs, l.CPUMillis, l.MemoryBytes = cmp.Or(l.PIDs, most.PIDs), cmp.Or(l.CPUMillis, most.CPUMillis), cmp.Or(l.MemoryBytes, most.MemoryBytes)
	l.DiskBytes, l.GPUs = cmp.Or(l.DiskBytes, most.DiskBytes), cmp.Or(l.GPUs, most.GPUs)
	if err := checkLimits(*l); err != nil {
		return err
	}
	if err := account.Check(h.User); err != nil {
		return err
	}
	h.ReadOnlyRoot = h.ReadOnlyRoot || d.hardening.ReadOnlyRoot
	h.Runtime = cmp.Or(h.Runtime, d.hardening.Runtime)
	profile, err := compact(cmp.Or(h.Seccomp, d.hardening.Seccomp))
	if err != nil {
		return err
	}
	h.Seccomp = profile
	h.DropCaps, err = engine.NormalCaps(append(slices.Clone(d.hardening.DropCaps), h.DropCaps...))
	// Where a capability is dropped it goes without saying: the same place has one form.
	h.NoNewPrivileges = (h.NoNewPrivileges || d.hardening.NoNewPrivileges) && len(h.DropCaps) == 0
	return err
}

// ownUser is the nearest to a user namespace that keeps the caller's id: that id itself, so
// that what is mounted is the caller's own inside too, and nobody's where it is root's.
func ownUser() string {
	uid, gid := os.Getuid(), os.Getgid()
	if uid <= 0 {
		return nobody
	}
	return strconv.Itoa(uid) + ":" + strconv.Itoa(gid)
}

// compact takes the white space out of a seccomp profile: it makes no other place.
func compact(profile string) (string, error) {
	if profile == "" {
		return "", nil
	}
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(profile)); err != nil {
		return "", spec.New(spec.CodeInvalid, "seccomp profile: it is no JSON")
	}
	return out.String(), nil
}

const noNewPrivileges = "no-new-privileges"

// gainsNothing reports whether programs of a place are kept from gaining privileges.
func gainsNothing(h spec.Hardening) bool { return h.NoNewPrivileges || len(h.DropCaps) > 0 }

func securityOptions(h spec.Hardening) []string {
	var out []string
	if gainsNothing(h) {
		out = append(out, noNewPrivileges)
	}
	if h.Seccomp != "" {
		out = append(out, engine.SeccompOption+h.Seccomp)
	}
	return out
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
	return caps.AddMissing("strict keep-id", d.engine.Title+" has no user namespace that keeps the caller's id: unless a user is named, commands run as the caller's own ids, as "+nobody+" where that is root")
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
		{noNewPrivileges, !gainsNothing(s.Hardening) || slices.ContainsFunc(opts, isNoNewPrivileges)},
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

func isNoNewPrivileges(opt string) bool {
	return opt == noNewPrivileges || opt == noNewPrivileges+":true" || opt == noNewPrivileges+"=true"
}
