package drivertest

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// environPlace is about the largest environments of a place. A value and all of it together are
// bounded by what a program can be started with.
func environPlace(ctx context.Context, t T, e *Env) {
	env := func(values, size int) map[string]string {
		out := map[string]string{}
		for i := range values {
			out[fmt.Sprintf("C_LARGE_%03d", i)] = strings.Repeat("x", size)
		}
		return out
	}
	for name, large := range map[string]map[string]string{
		"C_LARGE_000": env(1, spec.MaxArgBytes),
		"C_LARGE_":    env(200, 10<<10),
	} {
		s := e.Keyed()
		s.Env = large
		if sb, err := berth.Provision(ctx, e.Driver, s); err == nil {
			e.Cleanup(sb.Close)
			t.Fatalf("an environment of %d values was taken", len(large))
		} else {
			wantError(t, "provision", err, spec.ErrTooLarge)
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v; want the name of a variable", err)
			}
		}
		owned, err := e.Driver.Owned(ctx)
		if err != nil {
			t.Fatalf("owned: %v", err)
		}
		for _, o := range owned {
			if o.Key == s.Key {
				t.Errorf("a place was made")
			}
		}
	}
	s := e.Keyed()
	const values, size = 8, 100 << 10
	s.Env = env(values, size)
	sb := e.Provision(ctx, t, s)
	r := e.ExecIn(ctx, t, sb, berth.Shell(`echo ${#C_LARGE_000} ${#C_LARGE_007}`), berth.ExecOptions{})
	wantText(t, "lengths of large values", r.Stdout, fmt.Sprintln(size, size))
}
