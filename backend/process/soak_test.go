//go:build linux

package process_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/spec"
)

// TestMixedWorkOverCuts defends: clients whose connections are cut again and again lose no
// result of their work, and neither this process nor the machine keeps anything of it. In
// the soak that goes on for an hour.
func TestMixedWorkOverCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("the quick tier leaves it to the full one")
	}
	o := options(t)
	o.Transport = drivertest.CutStream
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := usage()
	suite := drivertest.Options{
		Open:        func() (driver.Driver, error) { return process.New(o) },
		Spec:        spec.Spec{Isolation: spec.IsolationNone},
		OrphanAfter: orphanAfter, ResumeWindow: resumeWindow, Only: regexp.MustCompile("^MixedWork$"),
	}
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		const hour = 2 * time.Hour // of which half is work
		suite.Soak, suite.Timeout = true, hour
	}
	t.Run("suite", func(t *testing.T) { drivertest.Run(t, suite) })
	left(t, o)
	eventually(t, "this process is as it was", func() error {
		if now := usage(); now.goroutines > before.goroutines+2 || now.descriptors > before.descriptors+2 {
			return fmt.Errorf("before %+v, after %+v", before, now)
		}
		return nil
	})
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) > 0 {
		t.Errorf("temporary files are left: %v, %v", entries, err)
	}
}

// use is what this process takes.
type use struct{ goroutines, descriptors int }

func usage() use {
	open, _ := os.ReadDir("/proc/self/fd")
	return use{runtime.NumGoroutine(), len(open)}
}
