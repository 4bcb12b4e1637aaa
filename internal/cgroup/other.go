//go:build !linux

package cgroup

import (
	"context"

	"github.com/berth-dev/berth/spec"
)

// Host is this machine, which has no groups.
type Host struct{}

// Discover finds none.
func Discover() (*Host, error) { return &Host{}, nil }

// Probe returns why there is no limit of a kind.
func (h *Host) Probe(context.Context) map[Kind]error {
	out := map[Kind]error{}
	for _, k := range kinds {
		out[k] = refuse(k, "control groups exist on linux only", "")
	}
	return out
}

// Make makes none.
func (h *Host) Make(string, spec.Limits) (Group, error) {
	return Group{}, refuse(Memory, "control groups exist on linux only", "")
}

// Join joins none.
func Join(string, string) error { return refuse(Memory, "control groups exist on linux only", "") }
