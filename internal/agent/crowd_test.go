//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
)

// crowd starts sleeping jobs.
func (h *host) crowd(jobs int) {
	h.t.Helper()
	for i := range jobs {
		start := jobRequest(wire.OpJobStart, wire.JobRequest{Owner: "crowd"})
		start.Exec = command("sleep", "3000")
		if _, err := h.call(start); err != nil {
			h.t.Fatalf("job %d: %v", i, err)
		}
	}
}

// Beside a crowd of jobs, a command gets what it gets in an empty place: its directory,
// its umask, its streams and no other descriptor; and it leaves as little behind.
func TestStartInACrowd(t *testing.T) {
	p := startPlace(t, "--state", t.TempDir())
	h := p.dial("a")
	if err := os.Mkdir(filepath.Join(p.workdir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	look := func() []string {
		t.Helper()
		req := shell("pwd; umask; echo err >&2; exec sleep 300")
		req.Dir = wire.Bytes("sub")
		var seen []string
		for _, req := range []*wire.ExecRequest{req, withUmask(0o027, shell("pwd; umask; exec sleep 300"))} {
			r := h.mustStart(req)
			eventually(t, "it has written and is its last program", func() bool {
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.started.PID))
				fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.started.PID))
				return string(comm) == "sleep\n" && len(fds) == 3 && strings.Count(r.out[0].String(), "\n") == 2
			})
			fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.started.PID))
			for i := range fds {
				fds[i] = filepath.Base(fds[i])
			}
			r.tell(wire.Control{Kill: true})
			got := r.wait()
			seen = append(seen, fmt.Sprint(got.Stdout, got.Stderr, got.Exit.Signal, fds))
		}
		_, err := h.start(command("./nosuch"))
		return append(seen, fmt.Sprint(err))
	}
	want := look()
	const jobs = 280
	h.crowd(jobs)
	if diff := cmp.Diff(want, look()); diff != "" { // the starter begins
		t.Errorf("-alone +in a crowd:\n%s", diff)
	}
	before := p.steady()
	for range 10 {
		look()
	}
	eventually(t, "descriptors and children are what they were", func() bool {
		now := p.footprint()
		return now.fds <= before.fds && now.children <= jobs
	})
}

// BenchmarkExecInACrowd measures `true` beside a thousand sleeping jobs and in a place
// without, in turns, and reports the lower quartiles and their ratio: 1 is the goal.
func BenchmarkExecInACrowd(b *testing.B) {
	hosts := []*host{startPlace(b, "--state", b.TempDir()).dial("a"), startPlace(b, "--state", b.TempDir()).dial("a")}
	hosts[0].crowd(1000)
	var took [2][]time.Duration
	for b.Loop() {
		for i, h := range hosts {
			begun := time.Now()
			if got := h.run(command("true")); got.Exit.Code != 0 {
				b.Fatalf("got %+v", got)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	var quartiles [2]float64
	for i := range took {
		slices.Sort(took[i])
		quartiles[i] = float64(took[i][len(took[i])/4].Microseconds())
	}
	b.ReportMetric(quartiles[0], "crowd-us")
	b.ReportMetric(quartiles[1], "alone-us")
	b.ReportMetric(quartiles[0]/quartiles[1], "ratio")
}
