package spec

import "strings"

// Caps says what a backend, or one very place, can do and enforce here and now.
// It is plain and comparable; the zero value claims nothing. Driver.Probe
// answers for the backend (sets hold everything that can be asked for);
// Session.Caps answers for one place (sets hold what is in force).
type Caps struct {
	// Backend is the driver's name; OS and Arch are GOOS and GOARCH of the
	// place ("" in a Probe that cannot know them yet).
	Backend string `json:"backend"`
	OS      string `json:"os,omitempty"`
	Arch    string `json:"arch,omitempty"`

	// Isolation holds the levels that can be enforced.
	Isolation Isolations `json:"isolation"`
	// Network holds the policies that can be enforced.
	Network Networks `json:"network"`
	// KillTree is the strength of a tree kill; "" where there is none.
	KillTree KillTree `json:"kill_tree,omitempty"`

	// Keyed: a place with a key outlives its creator and is found again by
	// Provision and Attach from any process.
	Keyed bool `json:"keyed"`
	// Image: Spec.Image chooses the place's file system.
	Image bool `json:"image"`
	// WritableRoots: Spec.WritableRoots is enforced.
	WritableRoots bool `json:"writable_roots"`
	// HiddenPaths: Spec.HiddenPaths is enforced.
	HiddenPaths bool `json:"hidden_paths"`
	// ConfinedSockets: no command can connect to a unix socket, with a path or an
	// abstract one, on which a process outside of the place listens.
	ConfinedSockets bool `json:"confined_sockets"`
	// Shielded: the guest is pid 1 of a pid namespace, so no signal from
	// inside ends it and `kill -9 -1` ends commands only.
	Shielded bool `json:"shielded"`
	// Resume: a command survives a lost connection to the guest and its
	// outcome is collected after a redial.
	Resume bool `json:"resume"`

	// Jobs is how long jobs live.
	Jobs JobDurability `json:"jobs,omitempty"`
	// CommandUser: Command.User is honoured.
	CommandUser bool `json:"command_user"`
	// Terminals: the place has terminals. Watch, Trees, Ports and Events: changes of files
	// are told; trees go in and out as archives; what listens inside is reached, and
	// something from outside offered there; the place tells what happens to it.
	Terminals bool `json:"terminals"`
	Watch     bool `json:"watch"`
	Trees     bool `json:"trees"`
	Ports     bool `json:"ports"`
	Events    bool `json:"events"`
	// WorkspaceRoot: Spec.WorkspaceRoot is enforced.
	WorkspaceRoot bool `json:"workspace_root"`

	// LimitMemory, LimitPIDs, LimitCPU: the limit of that kind is applied and
	// verified.
	LimitMemory bool `json:"limit_memory"`
	LimitPIDs   bool `json:"limit_pids"`
	LimitCPU    bool `json:"limit_cpu"`
	// LimitDisk: Limits.DiskBytes is enforced. GPUs: Limits.GPUs is.
	LimitDisk bool `json:"limit_disk"`
	GPUs      bool `json:"gpus"`
	// Hardening: the knobs of Spec.Hardening are applied.
	Hardening bool `json:"hardening"`

	// Build: Spec.Build makes the image. Mounts, PublishedPorts, NetworkModes, Secrets and
	// Labels: what the spec says of them is done.
	Build          bool `json:"build"`
	Mounts         bool `json:"mounts"`
	PublishedPorts bool `json:"published_ports"`
	NetworkModes   bool `json:"network_modes"`
	Secrets        bool `json:"secrets"`
	Labels         bool `json:"labels"`
	// Suspend: the place can be frozen with its processes, and go on. Snapshots: its files
	// can be kept, and another place made of them.
	Suspend   bool `json:"suspend"`
	Snapshots bool `json:"snapshots"`

	// Shell: the place has a POSIX /bin/sh. Coreutils: echo, cat, env, pwd,
	// sleep and true are on its PATH. Both are known of a place, not in a Probe.
	Shell     bool `json:"shell"`
	Coreutils bool `json:"coreutils"`

	// NativePrograms: a program file for OS and Arch that is written into the place runs
	// there, on a kernel. A place that only pretends to be one has none.
	NativePrograms bool `json:"native_programs"`

	// Missing says why something cannot be had, one "name: reason" a line, and
	// what cures it.
	Missing string `json:"missing,omitempty"`
}

// Why returns the reason that Missing gives for name, or "".
func (c Caps) Why(name string) string {
	for _, line := range strings.Split(c.Missing, "\n") {
		if reason, ok := strings.CutPrefix(line, name+": "); ok {
			return reason
		}
	}
	return ""
}

// AddMissing returns c with one more reason in Missing.
func (c Caps) AddMissing(name, reason string) Caps {
	line := name + ": " + oneLine(reason)
	if c.Missing != "" {
		line = c.Missing + "\n" + line
	}
	c.Missing = line
	return c
}

// Check reports, as an *Error with CodeUnsupported, the first thing that s asks
// for and c cannot enforce. It never weakens a request: a nil answer means that
// all of s can be had.
func (c Caps) Check(s *Spec) error {
	need := func(asked, have bool, name string) error {
		if !asked || have {
			return nil
		}
		text := name + " cannot be enforced here"
		if why := c.Why(name); why != "" {
			text = name + ": " + why
		}
		return New(CodeUnsupported, text)
	}
	isolation, network := string(s.Isolation), string(s.Network)
	for _, err := range []error{
		need(s.Isolation != IsolationDefault, c.Isolation.Has(s.Isolation), isolation),
		need(s.Network != NetworkDefault, c.Network.Has(s.Network), "network "+network),
		need(s.Key != "", c.Keyed, "key"),
		need(s.Image != "", c.Image, "image"),
		need(len(s.WritableRoots) > 0, c.WritableRoots, "writable_roots"),
		need(len(s.HiddenPaths) > 0, c.HiddenPaths, "hidden_paths"),
		need(s.WorkspaceRoot != "", c.WorkspaceRoot, "workspace_root"),
		need(s.Limits.MemoryBytes > 0, c.LimitMemory, "limit_memory"),
		need(s.Limits.PIDs > 0, c.LimitPIDs, "limit_pids"),
		need(s.Limits.CPUMillis > 0, c.LimitCPU, "limit_cpu"),
		need(s.Limits.DiskBytes > 0, c.LimitDisk, "limit_disk"),
		need(s.Limits.GPUs != 0, c.GPUs, "gpus"),
		need(!s.Hardening.IsZero(), c.Hardening, "hardening"),
		need(s.Build != nil, c.Build, "build"),
		need(len(s.Mounts) > 0, c.Mounts, "mounts"),
		need(len(s.Ports) > 0, c.PublishedPorts, "published_ports"),
		need(s.NetworkMode != "", c.NetworkModes, "network_modes"),
		need(len(s.Secrets) > 0, c.Secrets, "secrets"),
		need(len(s.Labels) > 0, c.Labels, "labels"),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
