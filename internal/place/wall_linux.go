package place

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/spec"
)

// Intact returns an error if the wall round the guest of rec, which runs, no longer is
// what it was: CodeUnsupported where something that was hidden or protected has been
// replaced from outside - the kernel then takes away the mount that covered it -, and
// CodeUnavailable where that cannot be told from here. The kernel's own list of the
// guest's mounts is asked, which nothing inside can change. A place without a wall is
// intact.
func (r *Root) Intact(rec Record) error {
	if rec.Isolation == spec.IsolationNone {
		return nil
	}
	guest := proc{rec.PID, rec.StartTicks}
	if !rec.foreign() && !guest.alive() { // it may have another guest by now
		if now, err := r.load(rec.ID); err == nil && now != nil {
			rec, guest = *now, proc{now.PID, now.StartTicks}
		}
	}
	if len(rec.Sealed) == 0 {
		return nil
	}
	fail := func(err error) error {
		return &spec.Error{Code: spec.CodeUnavailable, ID: rec.ID, Err: fmt.Errorf("the wall cannot be checked: %w", err)}
	}
	if rec.foreign() {
		return fail(errors.New("the guest lives in another pid namespace"))
	}
	mounts, err := procstat.MountPoints(rec.PID)
	switch {
	case !guest.alive():
		return fail(errors.New("the guest is gone"))
	case err != nil:
		return fail(err)
	}
	for _, path := range rec.Sealed {
		if mounts[path] {
			continue
		}
		// What is gone hides nothing any more, and needs no cover.
		if _, err := os.Lstat(path); errors.Is(err, unix.ENOENT) && slices.Contains(rec.Hidden, path) {
			continue
		}
		return &spec.Error{
			Code: spec.CodeUnsupported, ID: rec.ID, Path: path, Err: errors.New("the wall of this sandbox has a hole: this was replaced while it ran, and is not hidden or protected in it any more"),
			Hint: "end the sandbox and make it again (berth down, berth up): a new one hides what is there now",
		}
	}
	return nil
}
