//go:build linux

package place_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/idmap"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// TestNoIdmap defends: where a path cannot be idmapped the starter is asked once more, is
// told why, and what its plan then has to say is in the record and in the guest's notice.
// Nothing that was planned first is in force. A second refusal is an error.
func TestNoIdmap(t *testing.T) {
	needRoot(t)
	const notice = "it stays root"
	for name, tc := range map[string]struct {
		paths []string
		again bool // insist
		code  spec.Code
	}{
		"a file system that cannot":      {paths: []string{"/proc"}},
		"it is insisted on":              {paths: []string{"/proc"}, again: true, code: spec.CodeUnsupported},
		"a path that is not there":       {paths: []string{"/nonexistent"}, code: spec.CodeUnavailable},
		"a relative path makes no sense": {paths: []string{"x"}, code: spec.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoot(t)
			r.Idmap = &idmap.Mapper{}
			var reasons []error
			r.Guest = func(ctx context.Context, l place.Launch) (place.Plan, error) {
				plan, err := self(ctx, l)
				if len(reasons) == 0 || reasons[len(reasons)-1] != l.NoIdmap {
					reasons = append(reasons, l.NoIdmap)
				}
				if l.NoIdmap != nil {
					plan.Notice = notice
				}
				if l.NoIdmap == nil || tc.again {
					plan.Wrapped, plan.Drop, plan.Idmapped, plan.Guest = true, &place.Identity{UID: nobody, GID: nobody}, tc.paths, []string{plan.Path, reexecGuest}
				}
				return plan, err
			}
			before, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			conn, rec, err := r.Provision(within(t), keyed("k"), place.ProvisionOptions{Notice: "first"})
			if tc.code != "" {
				wantCode(t, err, tc.code)
				if !strings.Contains(err.Error(), tc.paths[0]) {
					t.Errorf("%v: it does not say what is wrong", err)
				}
				empty(t, r)
			} else {
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				hello(t, conn, rec.ID)
				if rec.Notice != "first; "+notice || rec.DropUID != 0 {
					t.Errorf("record: notice %q, drop %d", rec.Notice, rec.DropUID)
				}
				if args, err := os.ReadFile("/proc/" + strconv.Itoa(rec.PID) + "/cmdline"); err != nil || !strings.Contains(string(args), rec.Notice) {
					t.Errorf("the guest is not told: %q, %v", args, err)
				}
				if len(reasons) != 2 || reasons[0] != nil || !strings.Contains(reasons[1].Error(), "/proc: invalid argument") {
					t.Errorf("the starter was told %q", reasons)
				}
			}
			if after, err := os.ReadFile("/proc/self/mountinfo"); err != nil || string(after) != string(before) {
				t.Errorf("the mounts of this machine have changed, %v", err)
			}
		})
	}
}
