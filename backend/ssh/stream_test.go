//go:build linux

package ssh_test

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/internal/testutil/streamtest"
)

// A program on the far side is spoken to as if it were local, and a gigabyte of its
// output costs no memory on either side.
func TestStreams(t *testing.T) {
	o := farOptions(t, sshtest.Start(t, sshtest.Options{}))
	t.Cleanup(func() { reapAll(t, o) })
	sb, err := berth.Provision(t.Context(), newDriver(t, o), berth.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sb.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	streamtest.Run(t, sb)
}
