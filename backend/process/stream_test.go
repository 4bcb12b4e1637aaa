//go:build linux

package process_test

import (
	"context"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/internal/testutil/streamtest"
	"github.com/berth-dev/berth/spec"
)

// A program inside is spoken to as if it were local, and a gigabyte of its output costs
// no memory on either side.
func TestStreams(t *testing.T) {
	levels(t, func(t *testing.T, level spec.Isolation) {
		d, err := process.New(options(t))
		if err != nil {
			t.Fatal(err)
		}
		sb, err := berth.Provision(t.Context(), d, berth.Spec{Isolation: level})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sb.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		streamtest.Run(t, sb)
	})
}
