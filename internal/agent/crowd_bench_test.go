//go:build linux

package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// BenchmarkExecInACrowd measures `true` in a place with a thousand sleeping jobs beside
// one without, in turns.
func BenchmarkExecInACrowd(b *testing.B) {
	full, idle := startPlace(b, "--state", b.TempDir()), startPlace(b, "--state", b.TempDir())
	hosts := []*host{full.dial("a"), idle.dial("a")}
	for i := range 1000 {
		start := jobRequest(wire.OpJobStart, wire.JobRequest{Owner: "a"})
		start.Exec = command("sleep", "3000")
		if _, err := hosts[0].call(start); err != nil {
			b.Fatalf("job %d: %v", i, err)
		}
	}
	fmt.Println("guest", full.cmd.Process.Pid, idle.cmd.Process.Pid)
	var took [2][]time.Duration
	b.ResetTimer()
	for b.Loop() {
		for i, h := range hosts {
			begun := time.Now()
			if got := h.run(command("true")); got.Exit.Code != 0 {
				b.Fatalf("got %+v", got)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	for i, name := range []string{"full", "idle"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/4].Microseconds()), name+"-us")
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), name+"-med-us")
	}
}
