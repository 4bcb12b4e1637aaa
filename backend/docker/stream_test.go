//go:build linux

package docker_test

import (
	"testing"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/streamtest"
	"github.com/berth-dev/berth/spec"
)

// A program that is copied into an image with nothing else in it is spoken to as if it
// were local, and a gigabyte of its output costs no memory on either side.
func TestStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("a quick run leaves the long streams to the full one")
	}
	s := spec.Spec{Image: engine.Image(t, dockertest.Image{Kind: dockertest.Scratch})}
	streamtest.Run(t, provision(t, newDriver(t, testOptions(t)), s))
}
