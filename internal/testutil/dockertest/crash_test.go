//go:build linux

package dockertest_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
)

// An engine that has crashed is started again, with what it had.
func TestCrash(t *testing.T) {
	var e dockertest.Engine
	name := e.Image(t, dockertest.Image{Kind: dockertest.Scratch})
	e.Crash(t)
	e.Restart(t)
	if _, err := e.Client(t).ImageInspect(context.Background(), name); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
