package kernel

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// limits are the soft and hard resource limits of a process, in the order of
// spec.RlimitNames. What the system has can be limited: cpu, fsize, nofile, nproc, and as
// for what a program says that it holds. The others are carried along.
type limits [len(spec.RlimitNames)][2]uint64

// The limits that the system looks at.
const (
	limitCPU    = 0
	limitFsize  = 1
	limitNproc  = 6
	limitNofile = 7
	limitAS     = 9
)

// limitRows are what /proc/self/limits calls them, and their units.
var limitRows = [len(spec.RlimitNames)][2]string{
	{"Max cpu time", "seconds"},
	{"Max file size", "bytes"},
	{"Max data size", "bytes"},
	{"Max stack size", "bytes"},
	{"Max core file size", "bytes"},
	{"Max resident set", "bytes"},
	{"Max processes", "processes"},
	{"Max open files", "files"},
	{"Max locked memory", "bytes"},
	{"Max address space", "bytes"},
	{"Max file locks", "locks"},
	{"Max pending signals", "signals"},
	{"Max msgqueue size", "bytes"},
	{"Max nice priority", ""},
	{"Max realtime priority", ""},
	{"Max realtime timeout", "us"},
}

func defaultLimits() limits {
	var l limits
	for i := range l {
		l[i] = [2]uint64{spec.RlimitInfinity, spec.RlimitInfinity}
	}
	l[4][0] = 0 // core
	l[limitNofile] = [2]uint64{1024, 1 << 20}
	return l
}

// with returns l with some of them set.
func (l limits) with(set map[string]uint64) (limits, error) {
	for i, name := range spec.RlimitNames {
		v, ok := set[name]
		if !ok {
			continue
		}
		if v > l[i][1] {
			return l, &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("rlimit %s: above the hard limit of %d: %w", name, l[i][1], fs.ErrPermission)}
		}
		l[i] = [2]uint64{v, v}
	}
	return l, nil
}

// text is /proc/self/limits.
func (l limits) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s%-21s%-21s%-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units")
	for i, row := range limitRows {
		fmt.Fprintf(&b, "%-26s%-21s%-21s%-10s\n", row[0], limitText(l[i][0]), limitText(l[i][1]), row[1])
	}
	return b.String()
}

func limitText(v uint64) string {
	if v == spec.RlimitInfinity {
		return "unlimited"
	}
	return strconv.FormatUint(v, 10)
}

// Limit returns the soft and the hard limit that name of spec.RlimitNames has.
func (p *Proc) Limit(name string) (soft, hard uint64) {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	for i, n := range spec.RlimitNames {
		if n == name {
			return p.limits[i][0], p.limits[i][1]
		}
	}
	return spec.RlimitInfinity, spec.RlimitInfinity
}

// SetLimit sets both limits of a name.
func (p *Proc) SetLimit(name string, v uint64) error {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	l, err := p.limits.with(map[string]uint64{name: v})
	if err != nil {
		return EPERM
	}
	p.limits = l
	return nil
}

// Usage is what processes have used.
type Usage struct {
	// CPU is how long they ran without waiting for anything.
	CPU time.Duration
	// MaxHeld is the most bytes that one of them held at a time, as far as its
	// program says: its arguments, its environment and a shell's variables.
	MaxHeld int64
}

func (u *Usage) add(p *Proc) {
	u.CPU += p.cpu()
	u.MaxHeld = max(u.MaxHeld, p.mostHeld)
}

// cpu is how long p has run without waiting. The caller holds Kernel.mu.
func (p *Proc) cpu() time.Duration {
	end := time.Now()
	if p.ended {
		end = p.over
	}
	blocked := p.blocked
	if !p.waiting.IsZero() {
		blocked += end.Sub(p.waiting)
	}
	return max(end.Sub(p.started)-blocked, 0)
}

// block waits for ch, which it reports then, or for wake.
func (p *Proc) block(ch, wake <-chan struct{}) bool {
	begun := time.Now()
	p.k.mu.Lock()
	p.waiting = begun
	p.k.mu.Unlock()
	came := false
	select {
	case <-ch:
		came = true
	case <-wake:
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	p.waiting = time.Time{}
	p.blocked += time.Since(begun)
	return came
}

const sigXCPU, sigXFSZ = 24, 25

// chargeLocked sends what a process gets that has used up its CPU time.
func (p *Proc) chargeLocked() {
	soft := p.limits[limitCPU][0]
	if p.ended || soft == spec.RlimitInfinity || p.cpu() < time.Duration(soft)*time.Second {
		return
	}
	p.k.signalLocked(p, sigXCPU)
	if hard := p.limits[limitCPU][1]; p.cpu() > time.Duration(hard)*time.Second+time.Second {
		p.k.signalLocked(p, int(spec.SIGKILL))
	}
}

// Hold says that the program holds n more bytes, or fewer. A limit of the address space
// that they exceed is ENOMEM, and nothing is held.
func (p *Proc) Hold(n int64) error {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if n > 0 && uint64(p.held+n) > p.limits[limitAS][0] {
		return ENOMEM
	}
	p.held = max(p.held+n, 0)
	p.mostHeld = max(p.mostHeld, p.held)
	return nil
}
