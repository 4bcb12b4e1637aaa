package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Key is the stable name by which a caller finds a sandbox again: 1 to 128 bytes
// of [A-Za-z0-9._-], starting with a letter or digit. The empty key asks for a
// place that is reaped 30 s after its last client is gone.
type Key string

// Spec says what a place is to be. The zero value is a place with the backend's
// defaults and no key.
//
// What a backend cannot enforce is refused with ErrUnsupported before anything is
// created; see Caps.Check.
type Spec struct {
	Key   Key    `json:"key,omitempty"`
	Image string `json:"image,omitempty"`
	// Build makes the image from files of the caller's machine, once for equal files
	// and arguments. It excludes Image.
	Build *Build `json:"build,omitempty"`
	// Workdir is where commands run and relative paths begin: an absolute path
	// inside the place. A place on the caller's own machine refuses one that
	// does not exist, others make it. Empty: /workspace in a container, a fresh
	// directory that ends with the sandbox elsewhere.
	Workdir string `json:"workdir,omitempty"`
	// Env is fixed when the place is created and given to every command that
	// does not ask for a clean environment. Values survive byte for byte.
	Env map[string]string `json:"env,omitempty"`

	// Secrets are environment variables whose values no listing, description, label,
	// argument or error of Berth shows, and whose names alone count for what the place is:
	// a new value reaches a new place only. Every command of the place can read them, and
	// so can whoever may ask the engine. A ReservedSecret is CodeInvalid.
	Secrets map[string]string `json:"-"`

	Isolation Isolation `json:"isolation,omitempty"`
	Network   Network   `json:"network,omitempty"`
	// NetworkMode says which open network a container is in: "host", the engine's
	// machine's own; "container:ID", that of another container; else a network of the
	// engine by its name. It needs NetworkOpen. "": the engine's default network.
	NetworkMode string `json:"network_mode,omitempty"`
	// Mounts and Ports are a container's; a place on the caller's own machine needs
	// neither. Ports need a network: in a container the default is none.
	Mounts []Mount         `json:"mounts,omitempty"`
	Ports  []PublishedPort `json:"ports,omitempty"`
	// Labels are set on what is made for the place, beside Berth's own.
	Labels map[string]string `json:"labels,omitempty"`
	// WritableRoots are directories that guard lets commands write, beside the
	// workdir and the temporary directories. Absolute paths on the host.
	WritableRoots []string `json:"writable_roots,omitempty"`
	// HiddenPaths are files and directories that guard hides beside the
	// credential paths that it hides anyway. Absolute paths on the host.
	HiddenPaths []string `json:"hidden_paths,omitempty"`

	// WorkspaceRoot confines the file API, not the commands, to one directory
	// of a place that has no wall: a path that is not below it, by its text or
	// through a link, is CodeInvalidPath before anything is read. An absolute
	// path inside the place. Empty: the place is the boundary.
	WorkspaceRoot string `json:"workspace_root,omitempty"`

	Limits    Limits    `json:"limits,omitzero"`
	Hardening Hardening `json:"hardening,omitzero"`

	// IdleTimeout ends the place when no client and no command has been there
	// for so long; TTL ends it so long after its start. 0: never.
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	TTL         time.Duration `json:"ttl_ns,omitempty"`

	// Persist makes Close stop the place instead of removing it.
	Persist bool `json:"persist,omitempty"`
}

// Limits bound what a place may use. 0: the backend's default, which is no limit
// unless its documentation says otherwise.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	CPUMillis   int64 `json:"cpu_millis,omitempty"` // 1000 is one CPU
	// PIDs bounds processes and threads, with the few of the guest: a container takes 32 at
	// the least, this machine 48.
	PIDs int64 `json:"pids,omitempty"`
	// DiskBytes bounds what a container may write into its own layer.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// GPUs is how many of the machine's GPUs a container gets; -1: all of them.
	GPUs int `json:"gpus,omitempty"`
}

// Hardening holds the single knobs of a container. The zero value means the
// backend's defaults.
type Hardening struct {
	// DropCaps are capabilities to drop beside the default list, without CAP_;
	// "ALL" absorbs the rest.
	DropCaps []string `json:"drop_caps,omitempty"`
	// ReadOnlyRoot mounts the root file system read-only; the workdir and /tmp
	// stay writable.
	ReadOnlyRoot bool `json:"read_only_root,omitempty"`
	// User runs the place as "uid" or "uid:gid" instead of the image's user.
	User string `json:"user,omitempty"`
	// NoNewPrivileges keeps programs from gaining privileges by being executed. It is
	// set anyway where a capability is dropped.
	NoNewPrivileges bool `json:"no_new_privileges,omitempty"`
	// Seccomp is a seccomp profile, as JSON in the engine's format, that replaces the
	// engine's own.
	Seccomp string `json:"seccomp,omitempty"`
	// Runtime is the program that runs the container, by the name that the engine has
	// for it: runc, crun, runsc.
	Runtime string `json:"runtime,omitempty"`
}

// IsZero reports whether h asks for nothing.
func (h Hardening) IsZero() bool {
	return len(h.DropCaps) == 0 && !h.ReadOnlyRoot && h.User == "" && !h.NoNewPrivileges && h.Seccomp == "" && h.Runtime == ""
}

// Clone returns a deep copy: a caller that changes its own spec, map or slice
// afterwards changes nothing that Berth holds.
func (s *Spec) Clone() *Spec {
	c := *s
	c.Env = cloneMap(s.Env)
	c.Secrets = cloneMap(s.Secrets)
	c.Labels = cloneMap(s.Labels)
	c.Mounts = slices.Clone(s.Mounts)
	c.Ports = slices.Clone(s.Ports)
	if s.Build != nil {
		b := *s.Build
		b.Args = cloneMap(b.Args)
		c.Build = &b
	}
	c.WritableRoots = slices.Clone(s.WritableRoots)
	c.HiddenPaths = slices.Clone(s.HiddenPaths)
	c.Hardening.DropCaps = slices.Clone(s.Hardening.DropCaps)
	return &c
}

// Hash returns 16 hex digits that identify what the place is: equal for equal
// specs, different where image, workdir, isolation, network, roots, mounts, ports, the names of
// secrets, limits or hardening differ. Key, Env, Labels and the lifetimes are left out:
// Env is fixed by whoever created the place, and lifetimes may change without making it
// another place. Of a Build the caller resolves Image first. Callers resolve defaults first, so that "" and an explicit default
// compare equal.
func (s *Spec) Hash() string {
	// JSON of plain strings and numbers cannot fail, and zero fields leave no
	// trace: a field added later renames nothing that exists.
	data, _ := json.Marshal(s.identity())
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Parts returns a short hash of each field that Hash covers and that is set, by the
// field's name in JSON: what is kept of it says later which fields of another spec
// differ, and holds nothing that could be a secret.
func (s *Spec) Parts() map[string]string {
	var fields map[string]json.RawMessage
	data, _ := json.Marshal(s.identity())
	_ = json.Unmarshal(data, &fields)
	parts := make(map[string]string, len(fields))
	for name, value := range fields {
		sum := sha256.Sum256(value)
		parts[name] = hex.EncodeToString(sum[:4])
	}
	return parts
}

// DifferingParts returns the names of the fields in which two results of Parts differ,
// sorted.
func DifferingParts(a, b map[string]string) []string {
	var names []string
	for name, part := range a {
		if b[name] != part {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// identity is the spec as far as it says what the place is.
func (s *Spec) identity() any {
	id := *s
	id.Key, id.Env, id.Labels, id.Build, id.IdleTimeout, id.TTL, id.Persist = "", nil, nil, nil, 0, 0, false
	id.WritableRoots, id.HiddenPaths = sorted(s.WritableRoots), sorted(s.HiddenPaths)
	id.Hardening.DropCaps = sorted(s.Hardening.DropCaps)
	id.Image, id.Workdir, id.WorkspaceRoot = lossless(s.Image), lossless(s.Workdir), lossless(s.WorkspaceRoot)
	for _, list := range [][]string{id.WritableRoots, id.HiddenPaths} {
		for i := range list {
			list[i] = lossless(list[i])
		}
	}
	id.Mounts = slices.Clone(s.Mounts)
	for i := range id.Mounts {
		id.Mounts[i].Source, id.Mounts[i].Target = lossless(id.Mounts[i].Source), lossless(id.Mounts[i].Target)
	}
	return struct {
		*Spec
		SecretNames []string `json:"secret_names,omitempty"`
	}{&id, slices.Sorted(maps.Keys(s.Secrets))}
}

// lossless keeps apart what JSON would make the same: it replaces every byte that is
// not UTF-8 by one character. The NUL cannot begin a path.
func lossless(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return "\x00" + strconv.QuoteToASCII(s)
}

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return slices.Compact(out)
}

func cloneMap(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[k] = v
	}
	return out
}
