package place

import (
	"fmt"
	"math"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/spec"
)

const (
	// minMemoryBytes is the smallest memory limit that an engine accepts.
	minMemoryBytes = 6 << 20
	// minCPUMillis and maxPIDs are the ends of what a kernel does.
	minCPUMillis = 10
	maxPIDs      = 1 << 22
)

// DefaultLimits are those of a container for which nothing else is said: 512 processes,
// two CPUs, no memory limit.
func DefaultLimits() spec.Limits { return spec.Limits{PIDs: 512, CPUMillis: 2000} }

// DefaultHardening is that of a container for which nothing else is said: no NET_RAW,
// SETUID and SETGID.
func DefaultHardening() spec.Hardening {
	return spec.Hardening{DropCaps: []string{"NET_RAW", "SETUID", "SETGID"}}
}

// defaults returns what o says of every container, checked and in its one form, sharing
// nothing with o.
func defaults(o Options) (spec.Limits, spec.Hardening, error) {
	l, h := DefaultLimits(), DefaultHardening()
	if o.Limits != nil {
		l = *o.Limits
	}
	if o.Hardening != nil {
		h = *o.Hardening
	}
	if err := (&spec.Spec{Limits: l, Hardening: spec.Hardening{Seccomp: h.Seccomp, Runtime: h.Runtime}}).Validate(); err != nil {
		return l, h, err
	}
	if err := checkLimits(l); err != nil {
		return l, h, err
	}
	if err := account.Check(h.User); err != nil {
		return l, h, err
	}
	caps, err := engine.NormalCaps(h.DropCaps)
	h.DropCaps = caps
	return l, h, err
}

// checkLimits refuses what an engine would, or would take for something else.
func checkLimits(l spec.Limits) error {
	switch {
	case l.MemoryBytes > 0 && l.MemoryBytes < minMemoryBytes:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a memory limit of %d bytes is below the least that an engine takes, %d", l.MemoryBytes, minMemoryBytes))
	case l.CPUMillis > math.MaxInt64/nanosPerMilli:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a cpu limit of %d millis is too large", l.CPUMillis))
	case l.CPUMillis > 0 && l.CPUMillis < minCPUMillis:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a cpu limit of %d millis is below the least that a kernel takes, %d", l.CPUMillis, minCPUMillis))
	case l.PIDs > maxPIDs:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a limit of %d processes is above what a kernel can have, %d", l.PIDs, maxPIDs))
	}
	return nil
}
