package cgroup_test

import (
	"testing"

	"github.com/berth-dev/berth/internal/cgroup"
)

// BenchmarkProbe is what a limit costs a provision, and the first question for it.
func BenchmarkProbe(b *testing.B) {
	for b.Loop() {
		h, err := cgroup.Discover()
		if err != nil {
			b.Fatal(err)
		}
		if why := h.Probe(b.Context()); len(why) > 0 {
			b.Skip(why)
		}
	}
}
