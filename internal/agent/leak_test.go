//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
)

// A thousand commands leave nothing behind in the guest: no descriptor, no thread of
// work, no control group, no zombie.
func TestThousandCommandsLeaveNothing(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	n := 1000
	if testing.Short() {
		n = 100
	}
	for range 20 {
		h.run(command("true"))
	}
	before := p.footprint()
	for i := range n {
		if got := h.run(command("true")); got.Exit.Code != 0 {
			t.Fatalf("command %d: %+v", i, got)
		}
	}
	eventually(t, "descriptors and groups are back to what they were", func() bool {
		now := p.footprint()
		return now.fds <= before.fds && now.groups <= before.groups && now.children == 0
	})
	eventually(t, "memory is not held", func() bool { return p.footprint().threads <= before.threads+4 })
	reply, err := h.call(&wire.Request{Op: wire.OpStatus})
	if err != nil || reply.Status.Commands != 0 {
		t.Errorf("status: %+v, %v", reply, err)
	}
}

// footprint is what the guest uses.
type footprint struct{ fds, groups, children, threads int }

func (p *place) footprint() footprint {
	p.t.Helper()
	pid := p.cmd.Process.Pid
	count := func(pattern string) int {
		names, err := filepath.Glob(pattern)
		if err != nil {
			p.t.Fatal(err)
		}
		return len(names)
	}
	fp := footprint{
		fds:     count(fmt.Sprintf("/proc/%d/fd/*", pid)),
		groups:  count(fmt.Sprintf("/sys/fs/cgroup/*/berth-*-%d-*/*/", pid)),
		threads: count(fmt.Sprintf("/proc/%d/task/*", pid)),
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		data, _ := os.ReadFile(l)
		fp.children += len(strings.Fields(string(data)))
	}
	return fp
}

// The place leaves no control group behind, and clears away those of guests that
// were killed.
func TestNoGroupIsLeft(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	h.run(command("true"))
	groups := func(pid int) []string {
		names, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/berth-*-%d-*", pid))
		return names
	}
	if len(groups(p.cmd.Process.Pid)) == 0 {
		t.Skip("no cgroup can be made here")
	}
	killed := p.cmd.Process.Pid
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	q := startPlace(t)
	q.dial("a").run(command("true"))
	if left := groups(killed); len(left) > 0 {
		t.Errorf("the killed guest's groups are left: %v", left)
	}
	if _, err := q.dial("b").call(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{}}); err != nil {
		t.Fatal(err)
	}
	<-q.ended
	if left := groups(q.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}
