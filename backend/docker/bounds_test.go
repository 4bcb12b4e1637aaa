//go:build linux

package docker_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
)

// A limit on processes that is too small for the guest is refused before anything is made; the
// least that is taken is enough for two clients that reach it by relays, and their commands.
func TestFewProcesses(t *testing.T) {
	const least = 32
	o, ctx := testOptions(t), testContext(t)
	d, s := newDriver(t, o), busybox(t)
	s.Limits.PIDs = least - 1
	_, err := berth.Provision(ctx, d, s)
	wantIs(t, "one less", err, spec.ErrInvalid)
	if err == nil || !strings.Contains(err.Error(), "need 32") || spec.HintOf(err) == "" {
		t.Errorf("%v (hint: %q); want the least number, and advice", err, spec.HintOf(err))
	}
	if owned, err := d.Owned(ctx); err != nil || len(owned) > 0 {
		t.Errorf("places %+v, %v; want none", owned, err)
	}
	s.Limits.PIDs = least
	one := provision(t, d, s)
	two, err := berth.Attach(ctx, newDriver(t, o), s.Key)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		for _, sb := range []*berth.Sandbox{one, two} {
			// A shell that starts a program.
			if got := sh(t, sb, "/bin/cat /etc/hostname >/dev/null && echo works"); got != "works" {
				t.Errorf("the place says %q", got)
			}
		}
	}
	if err := two.Close(ctx); err != nil {
		t.Error(err)
	}
}
