package berth_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// keeper is a fake with snapshots that it takes too long to remove.
type keeper struct{ *fake }

func (keeper) Snapshot(context.Context, spec.Key, driver.SnapshotOptions) (spec.Snapshot, error) {
	return spec.Snapshot{ID: "s"}, nil
}

func (k keeper) Restore(ctx context.Context, _ string, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	k.note("restore")
	return k.Provision(ctx, s, o)
}

func (keeper) Snapshots(context.Context) ([]spec.Snapshot, error) { return nil, nil }

func (keeper) RemoveSnapshot(ctx context.Context, _ string, _ driver.ReapOptions) error {
	<-ctx.Done()
	return ctx.Err()
}

// A fork whose snapshot cannot be removed fails, and leaves no place; what ran out of time was
// not the caller.
func TestForkLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := keeper{newFake()}
		sb, err := berth.Provision(t.Context(), d, spec.Spec{Key: "one"})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Detach(context.Background())
		forked, err := sb.Fork(t.Context(), spec.Spec{Key: "two"}, berth.ProvisionOptions{})
		if forked != nil || !errors.Is(err, spec.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("forked %v, %v; want nothing, and unavailable", forked, err)
		}
		if log := d.log(); !strings.Contains(log, "reap two") {
			t.Errorf("the calls were %q; want the fork reaped", log)
		}
	})
}
