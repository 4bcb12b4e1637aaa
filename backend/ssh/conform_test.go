//go:build linux

package ssh_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

const (
	orphanAfter  = 3 * time.Second
	resumeWindow = 3 * time.Second
)

// soak asks for the long forms of tests.
func soak() bool { return os.Getenv("BERTH_TEST_SOAK") == "1" }

// farOptions are options for s with a state directory of the test's own, and short
// windows.
func farOptions(t *testing.T, s *sshtest.Server) ssh.Options {
	t.Helper()
	o := options(s)
	o.RemoteDir = filepath.Join(t.TempDir(), "state")
	o.OrphanAfter, o.ResumeWindow = orphanAfter, resumeWindow
	return o
}

func newDriver(t *testing.T, o ssh.Options) driver.Driver {
	t.Helper()
	d, err := ssh.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The conformance suite, over a real sshd.
func TestConform(t *testing.T) { conform(t, nil) }

// The same, through a stream that fragments, delays and stalls.
func TestConformSlowStream(t *testing.T) { conform(t, drivertest.SlowStream) }

func conform(t *testing.T, transport func(io.ReadWriteCloser) io.ReadWriteCloser) {
	s := sshtest.Start(t, sshtest.Options{})
	o := farOptions(t, s)
	o.Transport = transport
	t.Cleanup(func() { reapAll(t, o) })
	suite := drivertest.Options{
		Open:        func() (driver.Driver, error) { return ssh.New(o) },
		OrphanAfter: orphanAfter, ResumeWindow: resumeWindow,
		Soak: soak(), Brief: transport != nil,
	}
	if !suite.Soak {
		suite.Timeout = 2 * time.Minute
	}
	drivertest.Run(t, suite)
}

// reapAll removes what a test has left, so that no guest outlives it.
func reapAll(t *testing.T, o ssh.Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := newDriver(t, o)
	owned, err := d.Owned(ctx)
	if err != nil {
		t.Errorf("list what is left: %v", err)
	}
	for _, item := range owned {
		if err := d.Reap(ctx, item.Key, driver.ReapOptions{}); err != nil {
			t.Errorf("reap %s: %v", item.Key, err)
		}
	}
}

// provision makes a place that ends with the test.
func provision(t *testing.T, d driver.Driver, s spec.Spec) driver.Session {
	t.Helper()
	sess, err := d.Provision(t.Context(), &s, driver.ProvisionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sess.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if s.Key == "" {
			return
		}
		if err := d.Reap(ctx, s.Key, driver.ReapOptions{}); err != nil {
			t.Errorf("reap: %v", err)
		}
	})
	return sess
}
