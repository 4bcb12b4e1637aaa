package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// The defaults of a container, where nothing else is said.
const (
	DefaultPIDs      = 512
	DefaultCPUMillis = 2000
)

// DefaultDropCaps returns the capabilities that a container loses by default: what
// forges packets and what changes users.
func DefaultDropCaps() []string { return []string{"NET_RAW", "SETGID", "SETUID"} }

// maxCPUMillis is the most that a spec takes; it is far below what would overflow
// an engine's count in billionths of a CPU and come out as "no limit".
const maxCPUMillis = 1 << 40

// maxUID is the largest user id that no engine cuts: 1<<32 would come out as root.
const maxUID = 1<<31 - 1

// Sandbox is what limits and hardens containers: the SANDBOX_ variables, their
// flags, and the table of that name in the file. Unset means the default; an
// explicit 0 or "none" switches a limit off; the pointers tell both apart.
type Sandbox struct {
	PIDs, CPUMillis, MemoryBytes *int64
	// DropCaps is nil where it is unset, and empty for "none".
	DropCaps        []string
	ReadOnlyRoot    bool
	User            string
	NoNewPrivileges bool
	Seccomp         string // the profile itself
	Runtime         string
	DiskBytes       int64
	GPUs            int // -1: all
}

// Containers returns what every container gets that is created: what is set, by
// whatever source, and the defaults of the rest. What it returns shares nothing
// with c.
func (c *Config) Containers() (spec.Limits, spec.Hardening) {
	s := c.Sandbox
	l := spec.Limits{
		PIDs:        valueOr(s.PIDs, DefaultPIDs),
		CPUMillis:   valueOr(s.CPUMillis, DefaultCPUMillis),
		MemoryBytes: valueOr(s.MemoryBytes, 0),
		DiskBytes:   s.DiskBytes,
		GPUs:        s.GPUs,
	}
	h := spec.Hardening{
		DropCaps: slices.Clone(s.DropCaps), ReadOnlyRoot: s.ReadOnlyRoot, User: s.User,
		NoNewPrivileges: s.NoNewPrivileges, Seccomp: s.Seccomp, Runtime: s.Runtime,
	}
	if s.DropCaps == nil {
		h.DropCaps = DefaultDropCaps()
	}
	return l, h
}

// Demanded returns what flags ask for. It belongs into the spec of the one sandbox
// that the command line makes, and is refused where it cannot be enforced; what the
// environment and the file say is for containers and holds when they are created.
func (c *Config) Demanded() (spec.Limits, spec.Hardening) {
	var l spec.Limits
	var h spec.Hardening
	s := c.Sandbox
	for _, limit := range []struct {
		key   string
		field *int64
		value *int64
	}{{"sandbox.pids", &l.PIDs, s.PIDs}, {"sandbox.cpu_millis", &l.CPUMillis, s.CPUMillis}, {"sandbox.memory_bytes", &l.MemoryBytes, s.MemoryBytes}} {
		if c.Given(limit.key) {
			*limit.field = valueOr(limit.value, 0)
		}
	}
	if c.Given("sandbox.cap_drop") {
		h.DropCaps = slices.Clone(s.DropCaps)
	}
	h.ReadOnlyRoot = s.ReadOnlyRoot && c.Given("sandbox.read_only_root")
	h.NoNewPrivileges = s.NoNewPrivileges && c.Given("sandbox.no_new_privileges")
	for _, knob := range []struct {
		key   string
		field *string
		value string
	}{{"sandbox.user", &h.User, s.User}, {"sandbox.seccomp", &h.Seccomp, s.Seccomp}, {"sandbox.runtime", &h.Runtime, s.Runtime}} {
		if c.Given(knob.key) {
			*knob.field = knob.value
		}
	}
	if c.Given("sandbox.disk_bytes") {
		l.DiskBytes = s.DiskBytes
	}
	if c.Given("sandbox.gpus") {
		l.GPUs = s.GPUs
	}
	return l, h
}

func valueOr(set *int64, fallback int64) int64 {
	if set == nil {
		return fallback
	}
	return *set
}

func pids(c *Config, texts []string) error {
	return limit(&c.Sandbox.PIDs, one(texts), math.MaxInt64)
}

func cpuMillis(c *Config, texts []string) error {
	return limit(&c.Sandbox.CPUMillis, one(texts), maxCPUMillis)
}

func memoryBytes(c *Config, texts []string) error {
	return limit(&c.Sandbox.MemoryBytes, one(texts), math.MaxInt64)
}

// limit takes a whole number in digits; 0 and "none" switch the limit off.
func limit(field **int64, text string, most int64) error {
	if strings.EqualFold(text, "none") {
		text = "0"
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > most:
		return fmt.Errorf("%s is too large: at most %d", text, most)
	case err != nil:
		return fmt.Errorf("%q is not a whole number", text)
	case n < 0:
		return fmt.Errorf("%d is negative", n)
	}
	*field = &n
	return nil
}

// cpus takes a number of CPUs, as engines' command lines do.
func cpus(c *Config, texts []string) error {
	text := one(texts)
	if strings.EqualFold(text, "none") {
		text = "0"
	}
	f, err := strconv.ParseFloat(text, 64)
	millis := math.Round(f * 1000)
	switch {
	case err != nil || math.IsNaN(f):
		return fmt.Errorf("%q is not a number of CPUs", text)
	case f < 0:
		return fmt.Errorf("%s is negative", text)
	case millis > maxCPUMillis:
		return fmt.Errorf("%s is too large", text)
	case f > 0 && millis == 0:
		return fmt.Errorf("%s is too small: a thousandth of a CPU is the least", text)
	}
	n := int64(millis)
	c.Sandbox.CPUMillis = &n
	return nil
}

// ParseSize reads a number of bytes, with a unit or without: 512m, 2g.
func ParseSize(text string) (int64, error) {
	n, err := size(text)
	if err != nil {
		return 0, err
	}
	return *n, nil
}

func size(text string) (*int64, error) {
	text = strings.ToLower(text)
	digits := strings.TrimRight(text, "kmgtib")
	shift, ok := map[string]uint{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[text[len(digits):]]
	if !ok || digits == "" {
		return nil, fmt.Errorf("%q is not a size: want bytes, or 512m or 2g", text)
	}
	var n *int64
	if err := limit(&n, digits, math.MaxInt64>>shift); err != nil {
		return nil, err
	}
	*n <<= shift
	return n, nil
}

// memory takes bytes, or a number with k, m, g or t in powers of 1024.
func memory(c *Config, texts []string) error {
	n, err := size(one(texts))
	if err == nil {
		c.Sandbox.MemoryBytes = n
	}
	return err
}

// capDrop takes capability names in any case, with or without CAP_. The result is
// ordered, without repetition, and a slice of its own.
func capDrop(c *Config, texts []string) error {
	names := make([]string, 0, len(texts))
	off := false
	for _, list := range texts {
		for text := range strings.SplitSeq(list, ",") {
			name := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "CAP_")
			switch {
			case name == "NONE":
				off = true
				continue
			case !capName(name):
				return fmt.Errorf("%q is not the name of a capability", text)
			}
			names = append(names, name)
		}
	}
	if off && len(names) > 0 {
		return errors.New("none stands with other names")
	}
	if slices.Contains(names, "ALL") {
		names = []string{"ALL"}
	}
	slices.Sort(names)
	c.Sandbox.DropCaps = slices.Compact(names)
	return nil
}

func capName(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// readOnlyRoot takes exactly true and false: a wall that is up because somebody
// wrote "no" would surprise as much as one that is down because of "yes".
func readOnlyRoot(c *Config, texts []string) error {
	return boolean(&c.Sandbox.ReadOnlyRoot, texts)
}

func user(c *Config, texts []string) error {
	uid, gid, both := strings.Cut(one(texts), ":")
	ids := []string{uid}
	if both {
		ids = append(ids, gid)
	}
	for _, id := range ids {
		if n, err := strconv.ParseUint(id, 10, 64); err != nil || n > maxUID {
			return fmt.Errorf("%q is not a numeric user: want 0 to %d, with :GID if need be", one(texts), maxUID)
		}
	}
	c.Sandbox.User = one(texts)
	return nil
}
