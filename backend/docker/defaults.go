package docker

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Defaults are the limits and the hardening of every container that a driver
// creates. A Spec that states a limit of its own overrides it; its capabilities are
// dropped beside these. no-new-privileges is set whenever any capability is dropped.
type Defaults struct {
	PIDs        int64 // 0: no limit
	CPUMillis   int64 // 1000 is one CPU; more than the engine has is no limit. 0: no limit
	MemoryBytes int64 // at least MinMemoryBytes; swap is not given on top. 0: no limit
	// DropCaps are capabilities to drop, with or without CAP_, in any case;
	// "ALL" absorbs the rest.
	DropCaps     []string
	ReadOnlyRoot bool
	// User is "uid" or "uid:gid", numbers up to 2^31-1. "": the image's.
	User string
}

// MinMemoryBytes is the smallest memory limit that an engine accepts.
const MinMemoryBytes = 6 << 20

// DefaultHardening returns what holds if Options.Hardening is nil: 512 processes,
// two CPUs, no memory limit, and no NET_RAW, SETUID and SETGID.
func DefaultHardening() Defaults {
	return Defaults{PIDs: 512, CPUMillis: 2000, DropCaps: []string{"NET_RAW", "SETUID", "SETGID"}}
}

// normal returns d checked, with its capabilities in their one form, and sharing
// nothing with d.
func (d Defaults) normal() (Defaults, error) {
	for _, limit := range []int64{d.PIDs, d.CPUMillis, d.MemoryBytes} {
		if limit < 0 {
			return d, spec.New(spec.CodeInvalid, "hardening: a limit is negative")
		}
	}
	if err := checkLimits(spec.Limits{PIDs: d.PIDs, CPUMillis: d.CPUMillis, MemoryBytes: d.MemoryBytes}); err != nil {
		return d, err
	}
	if err := checkUser(d.User); err != nil {
		return d, err
	}
	caps, err := normalCaps(d.DropCaps)
	d.DropCaps = caps
	return d, err
}

// checkLimits refuses what an engine would, or would take for something else.
func checkLimits(l spec.Limits) error {
	switch {
	case l.MemoryBytes > 0 && l.MemoryBytes < MinMemoryBytes:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a memory limit of %d bytes is below the least that an engine takes, %d", l.MemoryBytes, MinMemoryBytes))
	case l.CPUMillis > math.MaxInt64/nanosPerMilli:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a cpu limit of %d millis is too large", l.CPUMillis))
	}
	return nil
}

// checkUser refuses what is not "uid" or "uid:gid". The bound matters: an engine
// cuts 2^32 down to root.
func checkUser(user string) error {
	if user == "" {
		return nil
	}
	uid, gid, both := strings.Cut(user, ":")
	if !both {
		gid = "0"
	}
	for _, id := range []string{uid, gid} {
		if _, ok := numericID(id); !ok {
			return spec.New(spec.CodeInvalid, fmt.Sprintf("user %.64q: want uid or uid:gid, in numbers up to 2147483647", user))
		}
	}
	return nil
}

// numericID parses digits only: no sign, no space, at most 2^31-1.
func numericID(s string) (int, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err == nil
}

// normalCaps brings capabilities into one form - upper case, no prefix, sorted, each
// once - in a fresh slice. ALL absorbs the rest.
func normalCaps(in []string) ([]string, error) {
	var out []string
	for _, c := range in {
		c = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(c)), "CAP_")
		if c == "" || strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
			return nil, spec.New(spec.CodeInvalid, fmt.Sprintf("capability %.64q: not a name", c))
		}
		out = append(out, c)
	}
	if slices.Contains(out, "ALL") {
		return []string{"ALL"}, nil
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
