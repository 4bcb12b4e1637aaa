//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
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
	before := p.steady()
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
		groups:  len(p.groups()),
		threads: count(fmt.Sprintf("/proc/%d/task/*", pid)),
	}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		data, _ := os.ReadFile(l)
		fp.children += len(strings.Fields(string(data)))
	}
	return fp
}

// steady is the footprint once it changes no more: a command's end is told before all that
// it had is given back, and what is kept in store is made after it.
func (p *place) steady() footprint {
	p.t.Helper()
	last, same := p.footprint(), 0
	eventually(p.t, "what the guest uses is steady", func() bool {
		now := p.footprint()
		if same++; now != last {
			last, same = now, 0
		}
		return same >= 10
	})
	return last
}

// groups are the directories of control groups that the guest holds open.
func (p *place) groups() []string {
	var dirs []string
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		if st, err := os.Stat(target); err == nil && st.IsDir() && strings.Contains(target, "cgroup") {
			dirs = append(dirs, target)
		}
	}
	return dirs
}

// The place leaves no control group behind, and ends and clears away those of guests
// that were killed.
func TestNoGroupIsLeft(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	h.run(command("true"))
	orphan := findProc(t, itoa(h.mustStart(shell("exec sleep 341")).started.PID))
	killed := p.groups()
	if len(killed) == 0 {
		t.Skip("no cgroup can be made here")
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	q := startPlace(t)
	h = q.dial("a")
	h.run(command("true"))
	mine := q.groups()
	if len(mine) == 0 {
		t.Error("the next guest has no groups")
	}
	eventually(t, "the killed guest's command ends", func() bool { return !orphan.alive() })
	last := startPlace(t) // removes what took its time to end
	last.dial("a").run(command("true"))
	if _, err := h.call(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{}}); err != nil {
		t.Fatal(err)
	}
	<-q.ended
	for _, dir := range append(killed, mine...) {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}

// Terminals that have ended leave no descriptor and no process, whether they ended by
// themselves, were killed, or their viewers were lost.
func TestTerminalsLeaveNothing(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	h.run(command("true"))
	before := p.steady()
	for i := range 4 {
		other := p.dial(fmt.Sprint("client", i))
		var ids []string
		for k, script := range []string{"exit 3", "read x", "exec sleep 325", "setsid sleep 326 & exec sleep 326"} {
			req := &wire.Request{
				Op:       wire.OpTerminalOpen,
				Exec:     command("/bin/sh", "-c", script),
				Terminal: &wire.TerminalRequest{Viewer: fmt.Sprint("viewer", k)},
			}
			req.Exec.Terminal = &spec.TerminalSize{Cols: 80, Rows: 24}
			reply, err := other.call(req)
			if err != nil || reply.Terminal == nil {
				t.Fatalf("open: %v", err)
			}
			ids = append(ids, reply.Terminal.ID)
			view, err := other.mux.Open(&wire.Request{Op: wire.OpTerminalView, Terminal: &wire.TerminalRequest{ID: reply.Terminal.ID, Viewer: fmt.Sprint("viewer", k)}})
			if err != nil {
				t.Fatal(err)
			}
			if k%2 == 0 {
				view.End()
			}
		}
		if now := p.footprint(); now.fds <= before.fds {
			t.Fatalf("%d descriptors with terminals, %d before", now.fds, before.fds)
		}
		if i%2 == 0 {
			other.mux.Close()
		}
		for _, id := range ids {
			if _, err := h.call(&wire.Request{Op: wire.OpTerminalKill, Terminal: &wire.TerminalRequest{ID: id}}); err != nil {
				t.Errorf("kill %s: %v", id, err)
			}
		}
		other.mux.Close()
	}
	eventually(t, "descriptors, groups and processes are back to what they were", func() bool {
		now := p.footprint()
		return now.fds <= before.fds && now.groups <= before.groups && now.children <= before.children
	})
}
