//go:build linux

package agent_test

import (
	"os/exec"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// BenchmarkExecTrue measures `true` through a connected guest beside plain fork and
// exec, in turns, and reports their ratio: at most 1.5 is the goal.
func BenchmarkExecTrue(b *testing.B) {
	h := startPlace(b).dial("a")
	for range 10 {
		h.run(command("true"))
	}
	var through, plain float64
	b.ResetTimer()
	for b.Loop() {
		through += seconds(func() {
			if got := h.run(command("true")); got.Exit.Code != 0 {
				b.Fatalf("got %+v", got)
			}
		})
		plain += seconds(func() {
			if err := exec.Command("true").Run(); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.ReportMetric(through/float64(b.N)*1e6, "through-us")
	b.ReportMetric(plain/float64(b.N)*1e6, "plain-us")
	b.ReportMetric(through/plain, "ratio")
}

// BenchmarkPing measures one round trip with no work in it.
func BenchmarkPing(b *testing.B) {
	h := startPlace(b).dial("a")
	for b.Loop() {
		if _, err := h.call(&wire.Request{Op: wire.OpPing}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput measures a large output.
func BenchmarkOutput(b *testing.B) {
	h := startPlace(b).dial("a")
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		req := command("head", "-c", "268435456", "/dev/zero")
		req.Stderr = false
		r := &running{t: b, id: req.ID, ctl: h.open(&wire.Request{Op: wire.OpExec, Exec: req})}
		data := wire.NewDataReader(h.open(dataRequest(req.ID, 1, 0)))
		if err := r.awaitStart(); err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		total := 0
		for {
			n, err := data.Read(buf)
			total += n
			if err != nil {
				break
			}
		}
		if total != size {
			b.Fatalf("%d bytes", total)
		}
		r.wait()
	}
}
