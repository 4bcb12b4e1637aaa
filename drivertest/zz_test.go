package drivertest_test

import (
	"testing"
	"time"
	"regexp"
	"os"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/spec"
)

func TestMain(m *testing.M) {
	selfexec.Main()
	os.Exit(m.Run())
}

func TestZZ(t *testing.T) {
	dir := t.TempDir()
	var only *regexp.Regexp
	if s := os.Getenv("ZZ"); s != "" {
		only = regexp.MustCompile(s)
	}
	iso := spec.Isolation(os.Getenv("ZZISO"))
	if iso == "" { iso = spec.IsolationNone }
	drivertest.Run(t, drivertest.Options{Only: only, Open: func() (driver.Driver, error) {
		return process.New(process.Options{StateDir: dir, Guest: guest.BinaryOptions{AllowSelf: true}, OrphanAfter: 2 * time.Second, ResumeWindow: 2 * time.Second})
	}, Spec: spec.Spec{Isolation: iso}, OrphanAfter: 2 * time.Second, ResumeWindow: 2 * time.Second})
}
