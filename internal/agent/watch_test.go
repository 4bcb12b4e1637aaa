//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
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
	before := p.steady()
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

// queuedEvents is how many events the kernel keeps for a watch.
func queuedEvents(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return most
}

// stopped stops the guest until the function that it returns is called.
func (p *place) stopped() (thaw func()) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	thaw = func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
	p.t.Cleanup(thaw)
	return thaw
}

// watched begins to watch a directory of the workdir.
func (h *host) watched(name string) *wire.ChangeReader {
	h.t.Helper()
	st, err := h.mux.Open(&wire.Request{Op: wire.OpWatch, Watch: &wire.WatchRequest{Name: wire.Bytes(name), Recursive: true}})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := wire.ReadReply(st); err != nil {
		h.t.Fatal(err)
	}
	return wire.NewChangeReader(wire.NewDataReader(st))
}

// That what is watched is gone is told also where the kernel's queue had no room for it.
func TestWatchEndsThoughTheQueueWasFull(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	top := p.workdir + "/top"
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	changes, thaw := h.watched("top"), p.stopped()
	for range queuedEvents(t)/2 + 1 { // each is made, written and removed
		if err := os.WriteFile(top+"/file", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(top + "/file"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(top); err != nil {
		t.Fatal(err)
	}
	thaw()
	for {
		if _, err := changes.Next(); err != nil {
			if spec.CodeOf(err) != spec.CodeFileNotFound {
				t.Errorf("it ended with %v", err)
			}
			return
		}
	}
}

// More than the kernel's queue holds is told as an overflow, and what was made meanwhile is
// watched from then on.
func TestWatchOutlivesTheKernelsQueue(t *testing.T) {
	p := startPlace(t)
	changes, thaw := p.dial("a").watched("."), p.stopped()
	for i := range queuedEvents(t)/2 + 1 { // each is made, written and removed
		name := p.workdir + "/file" + itoa(i)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	made := p.workdir + "/made/meanwhile"
	if err := os.MkdirAll(made, 0o755); err != nil {
		t.Fatal(err)
	}
	thaw()
	until := func(what string, wanted func(e files.WatchEvent) bool) {
		t.Helper()
		for {
			e, err := changes.Next()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if wanted(e) {
				return
			}
		}
	}
	until("the overflow", func(e files.WatchEvent) bool { return e.Kind == files.WatchOverflow })
	if err := os.WriteFile(made+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until("the file", func(e files.WatchEvent) bool { return e.Path == "made/meanwhile/file" })
}
