//go:build linux

package agent_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Whatever a command's processes do to hide - sessions of their own, dead parents, clean
// environments, other limits, other names, deafness to TERM, a stop, flight from process
// to process -, none is left where the guest says that it has proof, and each that is
// left is named where it does not. What is left is found from outside, by the directory
// that it runs in. Everything is inside a pid namespace of the test's own.
func TestHostileTrees(t *testing.T) {
	needNamespaces(t)
	// below is a guest that is no init, in a pid namespace all the same.
	below := append(slices.Clone(inNamespace), "sh", "-c", `"$@" & wait`, "sh")
	for name, wrapper := range map[string][]string{
		"with groups":         below,
		"without groups":      append(withoutGroups(t), below...),
		"as an init":          append(withoutGroups(t), inNamespace...),
		"with groups as init": inNamespace,
	} {
		t.Run(name, func(t *testing.T) {
			p := startPlaceUnder(t, wrapper)
			h := p.dial("a")
			f := &forest{t: t, p: p, h: h, random: rand.New(rand.NewPCG(7, 11)), outcomes: map[string]int{}}
			count := 16
			if os.Getenv("BERTH_TEST_SOAK") != "" {
				count = 500
			}
			for n := range count {
				if n == count/2 { // not alone from here on
					other := h.mustStart(shell("sleep 4000 & (env -i setsid sleep 4000 &); echo up; exec sleep 4000"))
					eventually(t, "the other command is up", func() bool { return other.out[0].len() > 0 && len(runIn(p.workdir)) == 3 })
					defer func() {
						if left := runIn(p.workdir); len(left) != 3 {
							t.Errorf("of another command's three processes %v are left", left)
						}
						other.tell(killNow)
					}()
				}
				f.plant(n)
			}
			t.Logf("%d trees: %v, %d processes left and named", count, f.outcomes, f.named)
		})
	}
}

// forest makes hostile trees and has them felled.
type forest struct {
	t        *testing.T
	p        *place
	h        *host
	random   *rand.Rand
	outcomes map[string]int
	named    int
}

// leaves are what the processes at the ends of a tree do; hides are the ways there, in
// which %s is the next script.
var (
	leaves = []string{
		"exec sleep 600",
		"echo kworker/0:1 >/proc/$$/comm\nsleep 600",
		"kill -STOP $$\nexec sleep 600",
		"trap '' TERM HUP INT\nexec sleep 600",
		"exec >&- 2>&- <&-\nsleep 600",
		"sleep 600 | cat | cat",
		// Each waits, starts the next one in a session of its own and ends: one is
		// alive at a time, and not for ever.
		"exec setsid sh ./rabbit",
	}
	hides = []string{
		"sh ./%s &",
		"setsid sh ./%s &",
		"( ( sh ./%s & ) & )",
		"( setsid sh -c '( sh ./%s & ) &' & )",
		`env -i PATH="$PATH" sh ./%s &`,
		`( ( env -i PATH="$PATH" setsid sh ./%s & ) & )`,
	}
	// unmark also takes away what nobody takes away by accident.
	unmark = `prlimit --pid $$ --locks=77:unlimited
( ( env -i PATH="$PATH" setsid sh ./%s & ) & )`
)

const rabbit = `n=${1:-0}
[ $n -lt 200 ] || exit
sleep 0.01
setsid sh ./rabbit $((n+1)) &
`

// plant grows one tree, has it ended and looks what is left.
func (f *forest) plant(n int) {
	f.t.Helper()
	dir := filepath.Join(f.p.workdir, fmt.Sprintf("tree-%d", n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			f.t.Fatal(err)
		}
	}
	write("rabbit", rabbit)
	unmarked := n%4 == 3
	ends := leaves
	if unmarked { // what is left of it is to hold still while it is compared
		ends = leaves[:len(leaves)-1]
	}
	root := ""
	for branch := range 1 + f.random.IntN(3) {
		next := fmt.Sprintf("leaf-%d", branch)
		write(next, ends[f.random.IntN(len(ends))])
		for depth := range 1 + f.random.IntN(3) {
			this := fmt.Sprintf("branch-%d-%d", branch, depth)
			write(this, fmt.Sprintf(hides[f.random.IntN(len(hides))], next))
			next = this
		}
		if unmarked {
			write("unmark", fmt.Sprintf(unmark, next))
			next = "unmark"
		}
		root += "sh ./" + next + "\n"
	}
	write("root", root+"echo ready\nsleep 600")
	req := command("/bin/sh", "./root")
	req.Dir = wire.Bytes(dir)
	req.GraceMS = int64(f.random.IntN(2) * 50)
	byTimeout := n%2 == 0
	if byTimeout {
		req.TimeoutMS = 400
	}
	r := f.h.mustStart(req)
	if !byTimeout {
		eventually(f.t, "the tree is up", func() bool { return r.out[0].len() > 0 })
		if unmarked {
			f.settled(dir)
		} else {
			time.Sleep(time.Duration(f.random.IntN(50)) * time.Millisecond)
		}
		r.tell(killNow)
	}
	exit, err := r.exit()
	if err != nil {
		f.t.Fatal(err)
	}
	_ = wire.WriteMessage(r.ctl, wire.Control{Done: true})
	f.look(n, dir, exit)
}

// settled waits until the tree in dir has not grown for a while.
func (f *forest) settled(dir string) {
	f.t.Helper()
	before, same := 0, 0
	eventually(f.t, "the tree is complete", func() bool {
		time.Sleep(100 * time.Millisecond)
		now := len(runIn(dir))
		if same++; now != before {
			same = 0
		}
		before = now
		return same == 3
	})
}

// look compares what is left with what the exit says.
func (f *forest) look(n int, dir string, exit spec.Exit) {
	f.t.Helper()
	left := runIn(dir)
	f.outcomes[string(exit.Kill)]++
	proven := exit.Kill == spec.KillTerminated
	if f.h.hello.KillTree == string(spec.KillTreeConfirmed) && !proven {
		f.t.Errorf("tree %d: kill %q, survivors %v; the guest confirms kills", n, exit.Kill, exit.Survivors)
	}
	for _, p := range left {
		inside := insidePID(p.pid)
		named := slices.ContainsFunc(exit.Survivors, func(s spec.Survivor) bool { return s.PID == inside })
		if !p.alive() {
			continue
		}
		if proven || !named {
			f.t.Errorf("tree %d: kill %q, process %d (%d inside) is left, named: %v of %v", n, exit.Kill, p.pid, inside, named, exit.Survivors)
		}
		f.named++
	}
	for end := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(end); left = runIn(dir) {
		for _, p := range left {
			p.kill()
		}
	}
}

// runIn finds the processes whose directory is dir.
func runIn(dir string) []proc {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	var out []proc
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == dir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			if start := startOf(pid); start != "" {
				out = append(out, proc{pid, start})
			}
		}
	}
	return out
}

// insidePID is a process's pid in its own namespace, 0 if it is gone.
func insidePID(pid int) int {
	data, _ := os.ReadFile("/proc/" + itoa(pid) + "/status")
	_, rest, _ := strings.Cut(string(data), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}

// kill ends the process, and no other one that has its pid by now.
func (p proc) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p.alive() {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); errors.Is(err, unix.ESRCH) {
			return
		}
	}
}
