package drivertest_test

import (
	"context"
	"io"
	"os"
	"regexp"
	"testing"
	"time"

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

func zzOptions(t *testing.T) drivertest.Options {
	dir := t.TempDir()
	var only *regexp.Regexp
	if s := os.Getenv("ZZ"); s != "" {
		only = regexp.MustCompile(s)
	}
	iso := spec.Isolation(os.Getenv("ZZISO"))
	if iso == "" {
		iso = spec.IsolationNone
	}
	var tr func(io.ReadWriteCloser) io.ReadWriteCloser
	if os.Getenv("ZZSLOW") != "" {
		tr = drivertest.SlowStream
	}
	return drivertest.Options{Only: only, Soak: os.Getenv("ZZSOAK") != "", Open: func() (driver.Driver, error) {
		return process.New(process.Options{StateDir: dir, Transport: tr, Guest: guest.BinaryOptions{AllowSelf: true}, OrphanAfter: 2 * time.Second, ResumeWindow: 2 * time.Second})
	}, Spec: spec.Spec{Isolation: iso}, OrphanAfter: 2 * time.Second, ResumeWindow: 2 * time.Second}
}

func TestZZ(t *testing.T) { drivertest.Run(t, zzOptions(t)) }

func TestZZCheck(t *testing.T) {
	r, err := drivertest.Check(context.Background(), zzOptions(t), func(r drivertest.Result) {
		if r.Outcome != drivertest.Passed {
			t.Logf("%s %s %s %v", r.Outcome, r.Case, r.Reason, r.Messages)
		}
	})
	t.Logf("%d passed, %d failed, %d skipped, ok %v, err %v", r.Passed, r.Failed, r.Skipped, r.OK(), err)
}
