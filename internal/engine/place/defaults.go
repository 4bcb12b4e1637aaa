package place

import (
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/account"
	"github.com/berth-dev/berth/spec"
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
	if err := engine.CheckLimits(l); err != nil {
		return l, h, err
	}
	if err := account.Check(h.User); err != nil {
		return l, h, err
	}
	caps, err := engine.NormalCaps(h.DropCaps)
	h.DropCaps = caps
	return l, h, err
}
