package place

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/direct"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/internal/engine/mounts"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// The labels of what is ours. They are read back: their names are for ever.
const (
	labelOwner     = "dev.berth.owner"
	labelKey       = snapshot.LabelPlace
	labelSpec      = "dev.berth.spec"       // Spec.Hash of the resolved spec
	labelParts     = "dev.berth.spec-parts" // Spec.Parts of it: name=hash,...
	labelEphemeral = "dev.berth.ephemeral"
	labelIsolation = "dev.berth.isolation" // "": standard
	labelListen    = "dev.berth.listen"    // the guest's abstract socket
	labelGuest     = helper.LabelGuest     // the guest version: helper.GuestVersion
	labelWorkdir   = "dev.berth.workdir"
	labelIdle      = "dev.berth.idle"
	labelTTL       = "dev.berth.ttl"
	labelEnv       = "dev.berth.env" // the names of the variables that the spec gave: a,b
)

const (
	// namePrefix begins the names of places and of helpers.
	namePrefix     = "berth-"
	defaultWorkdir = "/workspace"
	// stateDir is where the guest keeps its state: in the container's own layer,
	// or a volume where its root is read-only. It stays when the place is stopped.
	stateDir      = "/var/lib/berth"
	nanosPerMilli = int64(time.Millisecond)
)

// plan is one Provision: what is to be, every default resolved.
type plan struct {
	dialect   engine.Dialect
	auth      driver.Authority
	spec      *spec.Spec
	owner     string
	name      string
	hash      string
	ephemeral bool
	replace   bool
	// fresh: the place must not exist. unset: variables of the image that it does not get.
	fresh    bool
	unset    []string
	progress func(spec.Progress)
	// created is the id of the container that this Provision created, or "". listen is the
	// guest's socket in the last one that it asked for, and found the container that it has
	// come to.
	created, listen string
	// direct is the directory of its direct way, or ""; relayed: it is to have none.
	direct  string
	relayed bool
	// declared are the volumes of its image.
	declared []string
	found    *container.InspectResponse
}

// plan resolves the defaults, so that "" and an explicit default are one spec, and
// refuses what an engine would refuse late or misunderstand.
func (d *Driver) plan(s *spec.Spec, o driver.ProvisionOptions) (*plan, error) {
	s = s.Clone()
	p := &plan{owner: d.options.Owner, dialect: d.engine.Dialect, auth: o.Authority, spec: s, replace: o.Replace, progress: o.Progress}
	if s.Key == "" {
		var b [6]byte
		rand.Read(b[:])
		s.Key, p.ephemeral = spec.Key("tmp-"+hex.EncodeToString(b[:])), true
	}
	if s.Image == "" {
		return nil, noImage()
	}
	for _, env := range []map[string]string{s.Env, s.Secrets} {
		for name, value := range env {
			if !utf8.ValidString(value) {
				return nil, spec.New(spec.CodeUnsupported, "env "+name+": an engine takes UTF-8 only")
			}
		}
	}
	for name, value := range s.Labels {
		if !utf8.ValidString(name + value) {
			return nil, spec.New(spec.CodeUnsupported, fmt.Sprintf("label %.64q: an engine takes UTF-8 only", name))
		}
	}
	s.Workdir = path.Clean(cmp.Or(s.Workdir, defaultWorkdir))
	if !utf8.ValidString(s.Workdir) {
		return nil, &spec.Error{Code: spec.CodeUnsupported, Path: s.Workdir, Err: errors.New("an engine takes UTF-8 only")}
	}
	if mounts.Within(s.Workdir, stateDir) {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: s.Workdir, Err: errors.New("the guest's state is there")}
	}
	if mounts.Within(s.Workdir, guestDir) || mounts.Within(guestDir, s.Workdir) && s.Workdir != "/" {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: s.Workdir, Err: errors.New("the guest is there")}
	}
	if err := d.resolve(s); err != nil {
		return nil, err
	}
	if s.Hardening.ReadOnlyRoot && s.Workdir == "/" {
		return nil, &spec.Error{Code: spec.CodeUnsupported, Path: "/", Err: errors.New("the workdir of a read-only root cannot be the root itself")}
	}
	p.name, p.hash = containerName(d.options.Owner, s.Key), s.Hash()
	return p, nil
}

// resolve fills in isolation, network, mounts, limits and hardening.
func (d *Driver) resolve(s *spec.Spec) error {
	if s.Isolation == spec.IsolationDefault {
		s.Isolation = spec.IsolationStandard
	}
	if err := normalNetwork(s); err != nil {
		return err
	}
	if err := mounts.Normal(s.Mounts, guestDir, stateDir); err != nil {
		return err
	}
	return d.harden(s)
}

func containerName(owner string, key spec.Key) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + string(key)))
	return namePrefix + hex.EncodeToString(sum[:8])
}

// ours reports whether a container is a place of this owner. The engine's filter is trusted
// for speed, not for ownership, nor are labels alone: whatever is made of an image has those
// of the image, which may be one that somebody has made of a place.
func (d *Driver) ours(c container.Summary) bool {
	key := spec.Key(c.Labels[labelKey])
	return c.Labels[labelOwner] == d.options.Owner && spec.ValidateKey(key) == nil && slices.Contains(c.Names, "/"+containerName(d.options.Owner, key))
}

// spareThreads is what a guest has ahead whose place is limited in processes.
const spareThreads = "12"

// createOptions is the request that creates the place.
func (d *Driver) createOptions(p *plan, bin guest.Bin, cpus int) client.ContainerCreateOptions {
	p.listen = randomHex()
	labels := maps.Clone(p.spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		labelOwner: d.options.Owner, labelKey: string(p.spec.Key), labelSpec: p.hash, labelParts: partsText(p.spec.Parts()),
		labelListen: p.listen, labelGuest: helper.GuestVersion(bin), labelWorkdir: p.spec.Workdir, labelIsolation: string(p.spec.Isolation),
		// A label that is not said here would be the image's.
		direct.Label: p.direct, helper.Label: "", labelEphemeral: "false", labelIdle: "", labelTTL: "", labelEnv: "",
	})
	args := []string{"serve", "--listen-abstract", p.listen, "--peer", "engine", "--id", p.name, "--workdir", p.spec.Workdir, "--make-workdir", "--state", stateDir}
	if p.direct != "" {
		args = append(args, "--direct", directDir)
	}
	if mode := networkMode(p.spec); mode.IsHost() || mode.IsContainer() {
		args = append(args, "--shared-network")
	}
	if p.spec.Limits.PIDs > 0 {
		args = append(args, "--spare-threads", spareThreads)
	}
	given := slices.AppendSeq(slices.Collect(maps.Keys(p.spec.Env)), maps.Keys(p.spec.Secrets))
	if len(given) > 0 {
		slices.Sort(given)
		labels[labelEnv] = strings.Join(given, ",")
	}
	for _, name := range p.unset {
		if !slices.Contains(given, name) {
			args = append(args, "--unset-env", name)
		}
	}
	if p.ephemeral {
		labels[labelEphemeral] = "true"
		args = append(args, "--ephemeral")
	}
	for _, life := range []struct {
		flag, label string
		d           time.Duration
	}{
		{"--idle", labelIdle, p.spec.IdleTimeout},
		{"--ttl", labelTTL, p.spec.TTL},
		{"--orphan-after", "", d.options.OrphanAfter},
		{"--resume", "", d.options.ResumeWindow},
	} {
		if life.d > 0 {
			args = append(args, life.flag, life.d.String())
			if life.label != "" {
				labels[life.label] = life.d.String()
			}
		}
	}
	host := hostConfig(p, bin, cpus)
	host.Mounts = append(host.Mounts, d.direct.Mount(p.direct)...)
	host.Mounts = append(host.Mounts, mounts.Declared(p.declared, volumeLabels(p), host)...)
	o := client.ContainerCreateOptions{
		Name: p.name,
		Config: &container.Config{
			Image:        p.spec.Image,
			Entrypoint:   append(append([]string{guestPath}, bin.Args...), args...),
			Cmd:          []string{},
			Env:          environ(p.spec.Env, p.spec.Secrets),
			User:         p.spec.Hardening.User,
			WorkingDir:   "/",
			Labels:       labels,
			ExposedPorts: engine.ExposedPorts(p.spec.Ports),
			StopSignal:   "SIGKILL", // the guest takes every other one
			Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: host,
	}
	if unnamed(p.spec) {
		d.engine.Keep(&o)
	}
	return o
}

// hostConfig is the wall: limits, hardening, network and mounts.
func hostConfig(p *plan, bin guest.Bin, cpus int) *container.HostConfig {
	no := false
	h := &container.HostConfig{
		NetworkMode:    networkMode(p.spec),
		PortBindings:   engine.PortBindings(p.spec.Ports),
		AutoRemove:     p.ephemeral,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		LogConfig:      container.LogConfig{Type: "none"}, // what is written to pid 1's stdout must not fill the disk
		CapDrop:        p.spec.Hardening.DropCaps,
		ReadonlyRootfs: p.spec.Hardening.ReadOnlyRoot,
		Init:           &no, // the guest is pid 1
		SecurityOpt:    engine.SecurityOptions(p.spec.Hardening),
		Runtime:        p.spec.Hardening.Runtime,
		StorageOpt:     engine.StorageOptions(p.spec.Limits),
		Binds:          mounts.Shared(p.spec.Mounts),
		Mounts:         slices.Concat([]mount.Mount{helper.GuestMount(bin, true)}, writableMounts(p), mounts.Binds(p.spec.Mounts)),
		Tmpfs:          mounts.Tmpfs(p.spec),
	}
	l := p.spec.Limits
	h.DeviceRequests = engine.DeviceRequests(l)
	h.Memory, h.MemorySwap = l.MemoryBytes, l.MemoryBytes // no swap on top
	h.NanoCPUs = nanoCPUs(l.CPUMillis, cpus)
	h.PidsLimit = &l.PIDs
	if l.PIDs == 0 {
		none := int64(-1) // to an engine 0 may mean a limit of its own
		h.PidsLimit = &none
	}
	return h
}

// nanoCPUs turns a limit into the engine's unit. An engine refuses a limit above its
// number of CPUs, which is none at all.
func nanoCPUs(millis int64, cpus int) int64 {
	if most := int64(cpus) * 1000; cpus > 0 && millis > most {
		millis = most
	}
	return millis * nanosPerMilli
}

// writableMounts are what stays writable under a read-only root: volumes, not memory.
// Two mounts on one target, or one below another, are not needed, and where the spec
// mounts something that is what is there.
func writableMounts(p *plan) []mount.Mount {
	if !p.spec.Hardening.ReadOnlyRoot {
		return nil
	}
	var targets []string
	if !mounts.Covered(p.spec.Mounts, "/tmp") && len(mounts.Tmpfs(p.spec)) == 0 {
		targets = append(targets, "/tmp")
	}
	if !mounts.Within(p.spec.Workdir, "/tmp") && !mounts.Covered(p.spec.Mounts, p.spec.Workdir) {
		targets = append(targets, p.spec.Workdir)
	}
	if !mounts.Within(stateDir, p.spec.Workdir) {
		targets = append(targets, stateDir)
	}
	return mounts.Volumes(targets, volumeLabels(p))
}

// volumeLabels are those of a place's volumes: a prune knows them by the owner.
func volumeLabels(p *plan) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, p.spec.Labels)
	labels[labelOwner] = p.owner
	return labels
}

func environ(envs ...map[string]string) []string {
	var out []string
	for _, env := range envs {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			out = append(out, name+"="+env[name])
		}
	}
	return out
}

// checkOwner refuses a container that has our name and is not ours.
func (d *Driver) checkOwner(c *container.InspectResponse, key spec.Key) error {
	if c.Config.Labels[labelOwner] == d.options.Owner && c.Config.Labels[labelKey] == string(key) {
		return nil
	}
	return &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("container %s is not ours", placeID(c)), Hint: d.engine.Name + " rm it if it is yours, or use another key"}
}

// checkSpec refuses a container that was made for another spec.
func checkSpec(p *plan, c *container.InspectResponse) error {
	if c.Config.Labels[labelSpec] == p.hash {
		return nil
	}
	what := "another spec"
	if text := c.Config.Labels[labelParts]; text != "" {
		var fields []string
		for _, name := range spec.DifferingParts(parseParts(text), p.spec.Parts()) {
			if name == "image" {
				name = fmt.Sprintf("image (there %.128q)", c.Config.Image)
			}
			fields = append(fields, fmt.Sprintf("%.256s", name))
		}
		what += ": " + strings.Join(fields, ", ")
	}
	return &spec.Error{
		Code: spec.CodeSpecMismatch, Err: fmt.Errorf("the sandbox exists with %s", what),
		Hint: "take another key, or ask for the same; `berth exec` uses it as it is; Replace (--replace) ends it and makes a new one",
	}
}

// partsText is a label's form of Spec.Parts.
func partsText(parts map[string]string) string {
	entries := make([]string, 0, len(parts))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		entries = append(entries, name+"="+parts[name])
	}
	return strings.Join(entries, ",")
}

// parseParts reads a label that partsText has written.
func parseParts(text string) map[string]string {
	parts := map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		name, part, _ := strings.Cut(entry, "=")
		parts[name] = part
	}
	return parts
}

// verify is checkApplied, with what the engine says apart.
func (d *Driver) verify(ctx context.Context, p *plan, c *container.InspectResponse) (err error) {
	if want := p.spec.Hardening.Runtime; want != "" {
		c.HostConfig.Runtime, err = d.engine.Runtime(ctx, p.auth, c)
		switch {
		case err != nil:
			return err
		case c.HostConfig.Runtime != want && d.engine.Libpod:
			return &spec.Error{
				Code: spec.CodeUnsupported, Err: fmt.Errorf("runtime %s did not take effect: containers here are run by %.64q", want, c.HostConfig.Runtime),
				Hint: "Podman's service uses the runtime of its own configuration: set it in containers.conf ([engine] runtime)",
			}
		}
	}
	if unnamed(p.spec) {
		if err := d.engine.CheckKept(ctx, p.auth, c); err != nil {
			return err
		}
	}
	return checkApplied(p, c)
}

// checkApplied holds a container against what was asked for. What did not take is
// named: an engine drops a limit that its kernel lacks with no more than a warning.
func checkApplied(p *plan, c *container.InspectResponse) error {
	h, want := c.HostConfig, p.spec
	var pids int64
	if h.PidsLimit != nil {
		pids = max(*h.PidsLimit, 0)
	}
	cpu := want.Limits.CPUMillis * nanosPerMilli
	caps, err := engine.NormalCaps(h.CapDrop)
	checks := []applied{
		{"limit_memory", h.Memory == want.Limits.MemoryBytes && (h.Memory == 0 || h.MemorySwap == h.Memory)},
		{"limit_pids", pids == want.Limits.PIDs},
		{"limit_cpu", h.NanoCPUs <= cpu && (h.NanoCPUs > 0) == (cpu > 0)}, // less: clamped to the engine's CPUs
		{"dropped capabilities", err == nil && p.dialect.Dropped(want.Hardening.DropCaps, caps) && len(h.CapAdd) == 0},
		{"read_only_root", h.ReadonlyRootfs == want.Hardening.ReadOnlyRoot},
		{"user", want.Hardening.User == "" || c.Config.User == want.Hardening.User},
		{"network " + string(want.Network), networkApplied(want, c)},
		{"no privileges", !h.Privileged},
		// They are no part of what a place is: one that was there keeps its own.
		{"labels", c.ID != p.created || hasLabels(want, c)},
	}
	for _, check := range append(checks, knobsApplied(want, c)...) {
		if !check.ok {
			err := &spec.Error{Code: spec.CodeUnsupported, Err: errors.New(check.name + " did not take effect on the engine")}
			if strings.HasPrefix(check.name, "limit_") {
				err.Hint = "where the engine's kernel enforces no limits, do without: --pids 0 --cpus 0 --memory 0"
			}
			return err
		}
	}
	return nil
}

// placeCaps is what is in force in a container.
func (d *Driver) placeCaps(c *container.InspectResponse, pause bool) spec.Caps {
	network := spec.NetworkNone
	if !c.HostConfig.NetworkMode.IsNone() {
		network = spec.NetworkOpen
	}
	jobs := spec.JobsDurable
	if c.Config.Labels[labelEphemeral] == "true" {
		jobs = spec.JobsProcess
	}
	isolation := labelledIsolation(c.Config.Labels)
	caps := spec.Caps{
		Backend:   d.engine.Name,
		Isolation: spec.IsolationSet(isolation),
		Network:   spec.NetworkSet(network),
		Keyed:     true, Image: true, Build: true, Shielded: true, NativePrograms: true, Hardening: true, Jobs: jobs, Suspend: pause, Snapshots: pause,
		Mounts: true, PublishedPorts: true, NetworkModes: true, Secrets: true, Labels: true,
		// A socket may lie in what is mounted, and an abstract one is its network's.
		ConfinedSockets: !shared(c) && len(mounts.Of(c, directDir)) == 0,
		LimitDisk:       c.HostConfig.StorageOpt["size"] != "", GPUs: len(c.HostConfig.DeviceRequests) > 0,
		LimitMemory: c.HostConfig.Memory > 0,
		LimitPIDs:   c.HostConfig.PidsLimit != nil && *c.HostConfig.PidsLimit > 0,
		LimitCPU:    c.HostConfig.NanoCPUs > 0,
	}
	if isolation == spec.IsolationStrict && !engine.HasUserns(c) {
		caps = d.noKeepID(caps)
	}
	if !caps.ConfinedSockets {
		caps = caps.AddMissing("confined_sockets", "what is mounted may hold a socket, and in a shared network abstract sockets are everybody's")
	}
	return caps
}

// labelledIsolation is the profile that a container was made with.
func labelledIsolation(labels map[string]string) spec.Isolation {
	if labels[labelIsolation] == string(spec.IsolationStrict) {
		return spec.IsolationStrict
	}
	return spec.IsolationStandard
}

// placeLimits are the limits in force in a container.
func placeLimits(c *container.InspectResponse) spec.Limits {
	l := spec.Limits{MemoryBytes: max(c.HostConfig.Memory, 0), CPUMillis: max(c.HostConfig.NanoCPUs/nanosPerMilli, 0)}
	l.DiskBytes, l.GPUs = engine.DiskAndGPUs(c.HostConfig)
	if pids := c.HostConfig.PidsLimit; pids != nil {
		l.PIDs = max(*pids, 0)
	}
	return l
}

// describe makes a listing's row of an engine's.
func (d *Driver) describe(c container.Summary, key spec.Key) spec.Owned {
	idle, _ := time.ParseDuration(c.Labels[labelIdle])
	ttl, _ := time.ParseDuration(c.Labels[labelTTL])
	o := spec.Owned{
		Key: key, ID: containerName(c.Labels[labelOwner], key), Backend: d.engine.Name, State: spec.StateUnknown,
		Ephemeral: c.Labels[labelEphemeral] == "true", Image: c.Image, Workdir: c.Labels[labelWorkdir],
		Isolation: labelledIsolation(c.Labels), Created: time.Unix(c.Created, 0),
		IdleTimeout: max(idle, 0), TTL: max(ttl, 0),
	}
	switch c.State {
	case container.StateRunning:
		o.State = spec.StateRunning
	case container.StatePaused:
		o.State = spec.StatePaused
	case container.StateCreated, container.StateExited:
		o.State = spec.StateStopped
	}
	return o
}

// placeID is the id of a place: its container's name.
func placeID(c *container.InspectResponse) string { return strings.TrimPrefix(c.Name, "/") }

// errSuspended says why a container takes no exec.
var errSuspended = errors.New("suspended")

func (d *Driver) paused(c *container.InspectResponse) error {
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("container %s is %w", placeID(c), errSuspended), Hint: "`berth resume` lets it go on, as does " + d.engine.Name + " unpause " + placeID(c)}
}

func notRunning(c *container.InspectResponse, state container.ContainerState) error {
	return &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("container %s is %s", placeID(c), state), Hint: "provision starts it again"}
}

func randomHex() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
