//go:build linux

package oom_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/agent/oom"
	"github.com/berth-dev/berth/spec"
)

const (
	killed = 137
	limit  = 256 << 20
)

// group is a memory group in which files stand for the kernel's.
type group struct {
	t        *testing.T
	dir      string
	v2       bool
	kills    int
	met      int
	peak     int64
	ownLimit int64
}

func newGroup(t *testing.T, v2 bool) *group {
	g := &group{t: t, dir: t.TempDir(), v2: v2, peak: limit, ownLimit: limit}
	g.save()
	return g
}

func (g *group) save() {
	g.t.Helper()
	files := map[string]string{
		"memory.oom_control":        fmt.Sprintf("oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", g.kills),
		"memory.limit_in_bytes":     fmt.Sprintln(g.ownLimit),
		"memory.max_usage_in_bytes": fmt.Sprintln(g.peak),
		"memory.usage_in_bytes":     "4096\n",
	}
	if g.v2 {
		events := fmt.Sprintf("low 0\nhigh 0\nmax 9\noom %d\noom_kill %d\noom_group_kill 0\n", g.met, g.kills)
		max := fmt.Sprintln(g.ownLimit)
		if g.ownLimit == 0 {
			max = "max\n"
		}
		files = map[string]string{"memory.events": events, "memory.events.local": events, "memory.max": max, "memory.peak": fmt.Sprintln(g.peak), "memory.current": "4096\n"}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(content), 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
}

// kill counts n kills at the group's own limit.
func (g *group) kill(n int) {
	g.kills, g.met = g.kills+n, g.met+1
	g.save()
}

func (g *group) watch(own bool) *oom.Watch {
	g.t.Helper()
	w := oom.Open(oom.Group{Dir: g.dir, Own: own})
	if w == nil {
		g.t.Fatal("the group is not watched")
	}
	g.t.Cleanup(w.Close)
	return w
}

func both(t *testing.T, run func(t *testing.T, v2 bool)) {
	t.Run("v1", func(t *testing.T) { run(t, false) })
	t.Run("v2", func(t *testing.T) { run(t, true) })
}

// A kill at the place's own limit is told with the limit, the peak and a cure, and to
// one command only.
func TestToldOnce(t *testing.T) {
	both(t, func(t *testing.T, v2 bool) {
		g := newGroup(t, v2)
		w := g.watch(true)
		m := w.Begin()
		g.kill(1)
		got := w.Ended(m, oom.End{Status: killed})
		if got == nil || !strings.Contains(got.Hint, "256 MiB") {
			t.Fatalf("it says %+v", got)
		}
		got.Hint = ""
		if diff := cmp.Diff(&spec.OOM{LimitBytes: limit, PeakBytes: limit}, got); diff != "" {
			t.Error(diff)
		}
		if again := w.Ended(w.Begin(), oom.End{Status: killed}); again != nil {
			t.Errorf("a later command is told %+v", again)
		}
	})
}

// An exit status alone is no evidence.
func TestStatusIsNoEvidence(t *testing.T) {
	both(t, func(t *testing.T, v2 bool) {
		g := newGroup(t, v2)
		g.kill(3) // before anybody looked
		w := g.watch(true)
		if got := w.Ended(w.Begin(), oom.End{Status: killed}); got != nil {
			t.Errorf("it says %+v", got)
		}
		early := w.Begin()
		w.Forget(early)
		g.kill(1) // while nothing ran
		if got := w.Ended(w.Begin(), oom.End{Status: killed}); got != nil {
			t.Errorf("of a kill before the command began it says %+v", got)
		}
	})
}

// The kill belongs to the command that ended by SIGKILL, though another one ends first;
// else to the first. What we killed is not the kernel's victim before others.
func TestWhoIsTold(t *testing.T) {
	g := newGroup(t, true)
	w := g.watch(true)

	other, victim := w.Begin(), w.Begin()
	g.kill(1)
	told := make(chan *spec.OOM)
	undo := w.Wait(10 * time.Second)
	go func() { told <- w.Ended(other, oom.End{Status: 0}) }()
	if got := w.Ended(victim, oom.End{Status: killed}); got == nil {
		t.Error("the victim is not told")
	}
	if got := <-told; got != nil {
		t.Errorf("the other is told %+v", got)
	}
	undo()

	first, second := w.Begin(), w.Begin()
	g.kill(1)
	if got := w.Ended(first, oom.End{Status: 1}); got == nil {
		t.Error("nobody was killed as a whole, and the first that ended is not told")
	}
	if got := w.Ended(second, oom.End{Status: 1}); got != nil {
		t.Errorf("the second is told %+v", got)
	}

	ours, theirs := w.Begin(), w.Begin()
	g.kill(1)
	undo = w.Wait(10 * time.Second)
	go func() { told <- w.Ended(ours, oom.End{Status: killed, Ours: true}) }()
	if got := w.Ended(theirs, oom.End{Status: killed}); got == nil {
		t.Error("the victim is not told")
	}
	if got := <-told; got != nil {
		t.Errorf("what we killed is told %+v", got)
	}
	undo()
}

// Two that are killed at one time are both told; a command that lost several processes
// leaves nothing to a later one.
func TestSeveral(t *testing.T) {
	g := newGroup(t, true)
	w := g.watch(true)
	a, b := w.Begin(), w.Begin()
	g.kill(2)
	for _, m := range []*oom.Mark{a, b} {
		if w.Ended(m, oom.End{Status: killed}) == nil {
			t.Error("one of two is not told")
		}
	}
	c, bystander := w.Begin(), w.Begin()
	g.kill(5)
	if w.Ended(c, oom.End{Status: 2}) == nil {
		t.Error("a command whose children were killed is not told")
	}
	if got := w.Ended(bystander, oom.End{Status: 0}); got != nil {
		t.Errorf("one beside it is told %+v", got)
	}
	if got := w.Ended(w.Begin(), oom.End{Status: killed}); got != nil {
		t.Errorf("a later one is told %+v", got)
	}
}

// Memory that ran out around the place counts as a kill in its group too; it is worth
// another try.
func TestPressure(t *testing.T) {
	for name, press := range map[string]func(g *group){
		"v1 below its limit": func(g *group) { g.peak = limit / 2; g.kills++ },
		"v1 without limit":   func(g *group) { g.ownLimit = 9223372036854771712; g.kills++ },
		"v2 limit not met":   func(g *group) { g.kills++ },
		"v2 without limit":   func(g *group) { g.ownLimit = 0; g.kills++ },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, strings.HasPrefix(name, "v2"))
			w := g.watch(true)
			m := w.Begin()
			press(g)
			g.save()
			got := w.Ended(m, oom.End{Status: killed})
			if got == nil || !got.Retryable || got.Hint == "" {
				t.Fatalf("it says %+v", got)
			}
			if strings.Contains(name, "without") && got.LimitBytes != 0 {
				t.Errorf("it has a limit of %d", got.LimitBytes)
			}
		})
	}
}

// In a group that others share, a kill may be theirs: only a command that ended by
// SIGKILL is told, and no limit is called its own.
func TestShared(t *testing.T) {
	both(t, func(t *testing.T, v2 bool) {
		g := newGroup(t, v2)
		w := g.watch(false)
		fine, victim, ours := w.Begin(), w.Begin(), w.Begin()
		g.kill(2)
		for _, try := range []struct {
			m    *oom.Mark
			end  oom.End
			told bool
		}{{fine, oom.End{}, false}, {ours, oom.End{Status: killed, Ours: true}, false}, {victim, oom.End{Status: killed}, true}} {
			got := w.Ended(try.m, try.end)
			if (got != nil) != try.told || got != nil && (!got.Retryable || got.LimitBytes != 0) {
				t.Errorf("%+v: %+v", try.end, got)
			}
		}
		if u := w.Usage(); u != (oom.Usage{}) {
			t.Errorf("a shared group is told as the place's: %+v", u)
		}
	})
}

// Without a group the machine's count is read, and that a command was killed without a
// kill of the kernel's is no evidence there either.
func TestMachine(t *testing.T) {
	w := oom.Open(oom.Group{Dir: "/nonexistent"})
	if w == nil {
		t.Skip("this kernel does not count")
	}
	defer w.Close()
	before := vmstat(t)
	got := w.Ended(w.Begin(), oom.End{Status: killed})
	if got != nil && vmstat(t) == before {
		t.Errorf("it says %+v", got)
	}
}

func vmstat(t *testing.T) string {
	data, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "\noom_kill ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// A watch that sees nothing costs no care.
func TestNil(t *testing.T) {
	var w *oom.Watch
	m := w.Begin()
	w.Offer(1)
	w.Forget(m)
	w.Close()
	if got, u := w.Ended(m, oom.End{Status: killed}), w.Usage(); got != nil || u != (oom.Usage{}) {
		t.Errorf("it says %+v, %+v", got, u)
	}
}

// What is used is read from the group.
func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, v2 bool) {
		g := newGroup(t, v2)
		w := g.watch(true)
		g.kill(2)
		if diff := cmp.Diff(oom.Usage{Limit: limit, Current: 4096, Peak: limit, Kills: 2}, w.Usage()); diff != "" {
			t.Error(diff)
		}
	})
}
