//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// Watches that have ended leave no descriptor in the guest, and so no instance of the
// kernel's watches, also those whose client was lost.
func TestWatchesLeaveNothing(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	h.run(command("true"))
	if err := os.Mkdir(p.workdir+"/dir", 0o755); err != nil {
		t.Fatal(err)
	}
	before := p.footprint()
	for i := range 5 {
		other := p.dial(fmt.Sprint("client", i))
		for k := range 5 {
			st, err := other.mux.Open(&wire.Request{Op: wire.OpWatch, Watch: &wire.WatchRequest{Name: wire.Bytes("dir"), Recursive: true}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wire.ReadReply(st); err != nil {
				t.Fatal(err)
			}
			if k%2 == 0 {
				st.End()
			}
		}
		if now := p.footprint(); now.fds <= before.fds {
			t.Fatalf("%d descriptors with watches, %d before", now.fds, before.fds)
		}
		other.mux.Close()
	}
	eventually(t, "descriptors are back to what they were", func() bool { return p.footprint().fds <= before.fds })
}
