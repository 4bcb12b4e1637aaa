package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
)

// Mount makes something of the engine's machine appear inside a place that is a
// container.
type Mount struct {
	// Source is a file or directory of that machine, which exists: an absolute path.
	Source string `json:"source"`
	// Target is where it appears: an absolute path inside the place, other than "/".
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Shared relabels the source on a machine with SELinux so that several containers
	// may use it. It excludes ReadOnly.
	Shared bool `json:"shared,omitempty"`
}

// PublishedPort makes a port of a place reachable from the engine's machine.
type PublishedPort struct {
	Container int `json:"container"`      // 1 to 65535
	Host      int `json:"host,omitempty"` // 0: the engine chooses a free one
	// Address is the IP address on the engine's machine. "": 127.0.0.1.
	Address  string   `json:"address,omitempty"`
	Protocol Protocol `json:"protocol,omitempty"` // "": tcp
}

// Protocol is that of a published port.
type Protocol string

// The protocols of published ports.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// Build says how the image of a place is built.
type Build struct {
	// Context is a directory of the caller's machine, an absolute path. What a
	// .dockerignore names is sent too.
	Context string `json:"context"`
	// Dockerfile is a file of the caller's machine, an absolute path. "": Dockerfile in
	// Context.
	Dockerfile string            `json:"dockerfile,omitempty"`
	Args       map[string]string `json:"args,omitempty"`
}

// MaxContextFiles is how many files the context of a Build may hold.
const MaxContextFiles = 2000

// Image is an image that an engine has.
type Image struct {
	ID   string   `json:"id"`   // the engine's: "sha256:" and 64 hex digits
	Tags []string `json:"tags"` // sorted
	// Digests are the names by which a registry gives exactly this image.
	Digests   []string  `json:"digests,omitempty"`
	SizeBytes int64     `json:"size_bytes"`
	Created   time.Time `json:"created,omitzero"`
	// Built: the image was made by Berth from a Build, and is removed by a prune once
	// nothing uses it. Snapshot: from a place; it is kept until it is removed.
	Built    bool `json:"built,omitempty"`
	Snapshot bool `json:"snapshot,omitempty"`
}

// Snapshot is the kept state of a place: its files, not its processes.
type Snapshot struct {
	// ID names it to Restore: 1 to 128 bytes in the grammar of a Key.
	ID      string    `json:"id"`
	Backend string    `json:"backend"`
	Key     Key       `json:"key"` // of the place that it was taken of
	Created time.Time `json:"created"`
	// SizeBytes is what it takes, as far as the backend can say.
	SizeBytes int64 `json:"size_bytes,omitempty"`
}

// Pruned says what a prune has removed.
type Pruned struct {
	Containers []string `json:"containers"`
	Volumes    []string `json:"volumes"`
	Networks   []string `json:"networks"`
	Images     []string `json:"images"`
	FreedBytes int64    `json:"freed_bytes"`
}

// The caps on what a spec of a container may hold.
const (
	maxMounts     = 64
	maxPorts      = 256
	maxLabels     = 256
	maxLabelBytes = 4 << 10
	// maxSeccompBytes is far above the profiles that engines bring, of some 10 KiB.
	maxSeccompBytes = 1 << 20
	// ReservedLabels begin the labels that only Berth sets.
	ReservedLabels = "dev.berth."
)

// validateContainer refuses what no engine could mean.
func (s *Spec) validateContainer() error {
	if s.Image != "" && s.Build != nil {
		return New(CodeInvalid, "image and build exclude each other")
	}
	if s.Build != nil {
		if err := s.Build.Validate(); err != nil {
			return err
		}
	}
	if err := validateMounts(s.Mounts); err != nil {
		return err
	}
	if err := validatePorts(s.Ports); err != nil {
		return err
	}
	if len(s.Ports) > 0 && s.Network == NetworkNone {
		return New(CodeInvalid, "a published port needs a network: network none has no port to publish")
	}
	if err := s.validateNetworkMode(); err != nil {
		return err
	}
	if len(s.Labels) > maxLabels {
		return New(CodeInvalid, fmt.Sprintf("%d labels, at most %d are possible", len(s.Labels), maxLabels))
	}
	for name, value := range s.Labels {
		switch {
		case name == "" || len(name)+len(value) > maxLabelBytes || strings.ContainsRune(name+value, 0):
			return New(CodeInvalid, fmt.Sprintf("label %q: it is empty, too long, or holds a NUL", clip(name)))
		case strings.HasPrefix(name, ReservedLabels):
			return New(CodeInvalid, fmt.Sprintf("label %q: labels that begin with %s are Berth's own", clip(name), ReservedLabels))
		}
	}
	if err := validateSecrets(s.Secrets, s.Env); err != nil {
		return err
	}
	return s.Hardening.validate()
}

// The network modes that are no network's name.
const (
	NetworkModeHost      = "host"
	NetworkModeContainer = "container:" // begins one; the id or name of a container follows
)

func (s *Spec) validateNetworkMode() error {
	mode := s.NetworkMode
	if mode == "" {
		return nil
	}
	other, shared := strings.CutPrefix(mode, NetworkModeContainer)
	switch {
	case s.Network != NetworkOpen:
		return New(CodeInvalid, "a network mode needs network open: what it reaches is not filtered")
	case len(mode) > MaxKeyBytes, strings.ContainsFunc(mode, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '/' }),
		mode == "none", strings.Contains(other, ":"), shared && other == "":
		return New(CodeInvalid, fmt.Sprintf("network mode %q: want host, container:ID or the name of a network", clip(mode)))
	case len(s.Ports) > 0 && (shared || mode == NetworkModeHost):
		return New(CodeInvalid, fmt.Sprintf("network mode %s has no ports to publish: they are those of the network that is shared", clip(mode)))
	}
	return nil
}

// reservedSecrets are the variables that decide what runs and where it connects: one among
// credentials, whose names come from elsewhere, would be a way to take a place over.
var reservedSecrets = []string{
	"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "IFS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// ReservedSecret reports whether a variable cannot be one of Spec.Secrets. Who gets names
// from elsewhere drops those that are: one of them would fail every provision.
func ReservedSecret(name string) bool { return slices.Contains(reservedSecrets, name) }

func validateSecrets(secrets, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if _, both := env[name]; both {
			return New(CodeInvalid, "env and secrets both hold "+clip(name))
		}
		if ReservedSecret(name) {
			return New(CodeInvalid, "a secret cannot be called "+name+": that variable decides what runs or where it connects")
		}
	}
	return ValidateEnv(secrets)
}

// validate refuses knobs that no engine could mean.
func (h *Hardening) validate() error {
	if h.Seccomp != "" {
		if len(h.Seccomp) > maxSeccompBytes {
			return &Error{Code: CodeTooLarge, Err: fmt.Errorf("seccomp profile: %d bytes, at most %d are possible", len(h.Seccomp), maxSeccompBytes)}
		}
		var profile map[string]json.RawMessage
		if err := json.Unmarshal([]byte(h.Seccomp), &profile); err != nil || profile["defaultAction"] == nil {
			return New(CodeInvalid, "seccomp profile: want a JSON object with a defaultAction, the content of the file and not its name")
		}
	}
	if len(h.Runtime) > MaxKeyBytes || h.Runtime != "" && strings.Trim(h.Runtime, runtimeBytes) != "" {
		return New(CodeInvalid, fmt.Sprintf("runtime %q: want the name that the engine has for it", clip(h.Runtime)))
	}
	for _, c := range h.DropCaps {
		if !envName(c) {
			return New(CodeInvalid, fmt.Sprintf("capability %q: not a name", clip(c)))
		}
	}
	return nil
}

// runtimeBytes are those of a runtime's name.
const runtimeBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// Validate refuses a build that cannot be meant.
func (b *Build) Validate() error {
	if err := absolute("build context", b.Context); err != nil {
		return err
	}
	if b.Dockerfile != "" {
		if err := absolute("dockerfile", b.Dockerfile); err != nil {
			return err
		}
	}
	for name, value := range b.Args {
		if !envName(name) || strings.ContainsRune(value, 0) {
			return New(CodeInvalid, fmt.Sprintf("build argument %q: not a name, or its value holds a NUL", clip(name)))
		}
	}
	return nil
}

func validateMounts(mounts []Mount) error {
	if len(mounts) > maxMounts {
		return New(CodeInvalid, fmt.Sprintf("%d mounts, at most %d are possible", len(mounts), maxMounts))
	}
	var targets []string
	for _, m := range mounts {
		for _, end := range []struct{ what, path string }{{"mount source", m.Source}, {"mount target", m.Target}} {
			if err := absolute(end.what, end.path); err != nil {
				return err
			}
		}
		target := path.Clean(m.Target)
		switch {
		case target == "/" || target == "/proc" || strings.HasPrefix(target, "/proc/"):
			return &Error{Code: CodeInvalidPath, Path: m.Target, Err: fmt.Errorf("nothing can be mounted there")}
		case m.Shared && m.ReadOnly:
			return New(CodeInvalid, fmt.Sprintf("mount at %q: shared and read-only exclude each other", clip(m.Target)))
		case slices.Contains(targets, target):
			return New(CodeInvalid, fmt.Sprintf("two mounts at %q", clip(target)))
		}
		targets = append(targets, target)
	}
	return nil
}

func validatePorts(ports []PublishedPort) error {
	if len(ports) > maxPorts {
		return New(CodeInvalid, fmt.Sprintf("%d published ports, at most %d are possible", len(ports), maxPorts))
	}
	seen := map[PublishedPort]bool{}
	for _, p := range ports {
		if p.Container < 1 || p.Container > 65535 || p.Host < 0 || p.Host > 65535 {
			return New(CodeInvalid, fmt.Sprintf("published port %d:%d: ports are 1 to 65535", p.Host, p.Container))
		}
		if p.Protocol != "" && p.Protocol != TCP && p.Protocol != UDP {
			return New(CodeInvalid, fmt.Sprintf("published port %d: protocol %q: want tcp or udp", p.Container, clip(string(p.Protocol))))
		}
		if p.Address != "" {
			// One that has a zone is none to an engine, which then publishes to everybody.
			if a, err := netip.ParseAddr(p.Address); err != nil || a.Zone() != "" {
				return New(CodeInvalid, fmt.Sprintf("published port %d: %q is no IP address", p.Container, clip(p.Address)))
			}
		}
		if seen[p] {
			return New(CodeInvalid, fmt.Sprintf("port %d is published twice in the same way", p.Container))
		}
		seen[p] = true
	}
	return nil
}
