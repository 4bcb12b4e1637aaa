package transfer

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/swapper"
)

// Whoever swaps a directory of this machine for a link that leads out, while files are
// copied from it or into it, neither gets anything from outside nor writes there.
func TestCopyAgainstASwapper(t *testing.T) {
	top := t.TempDir()
	o := swapper.NewOutside(t, top+"/outside")
	a := swapper.NewArena(t, top+"/host", o)
	taken, left, refused := 0, 0, 0
	for i := range swapper.Attempts() {
		p, m := newPlace(t)
		put(t, m, "d/"+swapper.Swapped+"/file=mine", "d/"+swapper.Swapped+"/dir/file=mine", "d/"+swapper.Swapped+"/dir/new=mine", "d/"+swapper.Swapped+"/made/new=mine")
		switch _, err := in(t, p, []string{top + "/host", top + "/host/."}[i%2], "taken", Options{Skip: func(string, string) {}}); {
		case err != nil:
			refused++
		default:
			taken++
		}
		for found, err := range files.Grep(t.Context(), m, files.GrepOptions{Files: files.GlobOptions{Dir: "."}, Pattern: swapper.Canary}) {
			t.Errorf("in the place: %+v, %v", found, err)
		}
		for found, err := range files.Glob(t.Context(), m, files.GlobOptions{Dir: "."}) {
			swapper.Seen(t, "a name in the place", fmt.Sprint(found.Path, err))
		}
		switch _, err := out(t, p, "d/.", top+"/host", Options{Force: true}); {
		case err != nil:
			refused++
		default:
			left++
		}
		a.Fill(t)
		if t.Failed() {
			break
		}
	}
	t.Logf("%d copies out, %d in, %d refused, %d swaps", left, taken, refused, a.Stop(t))
	swapper.SeenBelow(t, "on this machine", top+"/host")
}
