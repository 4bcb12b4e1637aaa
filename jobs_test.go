package berth_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-dev/berth"
)

// A place without jobs refuses every call on them; what cannot be meant is refused before
// the place is asked.
func TestNoJobs(t *testing.T) {
	ctx := context.Background()
	sb := provision(t)
	jobs := sb.Jobs("me")
	for name, try := range map[string]func() error{
		"start":     func() error { _, err := jobs.Start(ctx, []string{"true"}, berth.JobOptions{}); return err },
		"list":      func() error { _, err := jobs.List(ctx); return err },
		"get":       func() error { _, err := jobs.Get(ctx, "job-1"); return err },
		"hand over": func() error { _, err := jobs.HandOver(ctx, "you"); return err },
		"watch":     func() error { return jobs.Watch(ctx, berth.JobWatch{}) },
	} {
		var e *berth.Error
		if err := try(); !errors.Is(err, berth.ErrUnsupported) || !errors.As(err, &e) || e.Op == "" || e.Backend == "" {
			t.Errorf("%s: %v; want unsupported, and where", name, err)
		}
	}
	for name, try := range map[string]func() error{
		"no program":  func() error { _, err := jobs.Start(ctx, nil, berth.JobOptions{}); return err },
		"a bad owner": func() error { _, err := sb.Jobs("a b").List(ctx); return err },
		"a bad heir":  func() error { _, err := jobs.HandOver(ctx, "a b"); return err },
		"a stall": func() error {
			_, err := jobs.Start(ctx, []string{"true"}, berth.JobOptions{StallAfter: -1})
			return err
		},
	} {
		if err := try(); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("%s: %v; want invalid", name, err)
		}
	}
}
