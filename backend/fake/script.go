package fake

import (
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/environ"
	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/stream"
	"github.com/berth-dev/berth/spec"
)

// script is what a World was told, and what it has seen.
type script struct {
	rules  []*Rule
	faults []*Injected
	calls  []*Call
	counts map[Op]int
}

func (s *script) count(op Op) {
	if s.counts == nil {
		s.counts = map[Op]int{}
	}
	s.counts[op]++
}

// Call is a program that was run, or asked for: a command of the client, or one that
// a script ran.
type Call struct {
	Key  spec.Key // of the place
	Args []string
	Env  map[string]string
	Dir  string // absolute
	// Nested: it was run by another program of the place.
	Nested bool

	stdin *stream.Recording // nil for a nested one
}

// Stdin is what has been fed to the command of a client until now; the first 1 MiB.
func (c Call) Stdin() string {
	if c.stdin == nil {
		return ""
	}
	return c.stdin.String()
}

// String is the call as one would type it.
func (c Call) String() string { return strings.Join(c.Args, " ") }

// Calls returns all calls in their order, those of scripts among them.
func (w *World) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Call, len(w.script.calls))
	for i, c := range w.script.calls {
		out[i] = c.clone()
	}
	return out
}

// Find returns the calls that match, in their order.
func (w *World) Find(match Match) []Call {
	return slices.DeleteFunc(w.Calls(), func(c Call) bool { return !match(c) })
}

// Count is how often an operation was asked for.
func (w *World) Count(op Op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.script.counts[op]
}

// Match picks calls. It must not wait and not ask the World anything.
type Match func(c Call) bool

// Args matches by arguments, each by a pattern as path.Match has it (where * does not
// stand for a slash); the program's directory does not count unless the pattern has
// one. A last "..." is any number of arguments.
func Args(patterns ...string) Match {
	patterns = slices.Clone(patterns)
	return func(c Call) bool {
		args, want := c.Args, patterns
		if n := len(want); n > 0 && want[n-1] == "..." {
			want = want[:n-1]
			args = args[:min(len(args), len(want))]
		}
		if len(args) != len(want) {
			return false
		}
		for i, pattern := range want {
			arg := args[i]
			if i == 0 && !strings.Contains(pattern, "/") {
				arg = path.Base(arg)
			}
			if ok, err := path.Match(pattern, arg); arg != pattern && (!ok || err != nil) {
				return false
			}
		}
		return true
	}
}

// Script matches a command that was made by berth.Shell and whose script contains text.
func Script(text string) Match {
	return func(c Call) bool {
		return len(c.Args) >= 3 && c.Args[1] == "-c" && strings.Contains(c.Args[2], text)
	}
}

// Reply is what a scripted command does instead of running: it waits for Delay, prints,
// and ends.
type Reply struct {
	Delay          time.Duration
	Stdout, Stderr string
	Exit           int
	Signal         spec.Signal // that it dies of; 0: none
	// Run, if set, does it all instead.
	Run Program
	// Times is how many calls are answered so; 0: all.
	Times int
}

// Rule is a Reply at work.
type Rule struct {
	w     *World
	match Match
	reply Reply
	used  int
}

// Used is how many calls the rule has answered.
func (r *Rule) Used() int {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.used
}

// On answers the calls that match with reply. The program need not exist. Of several
// rules the youngest that is not used up answers.
func (w *World) On(match Match, reply Reply) *Rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &Rule{w: w, match: match, reply: reply}
	w.script.rules = append(w.script.rules, r)
	return r
}

// intercept notes a call and returns what answers it, or nil.
func (w *World) intercept(p *place, proc *kernel.Proc, args []string, stdin *stream.Recording) kernel.Main {
	c := &Call{Key: p.key, Args: slices.Clone(args), Env: environ.Map(proc.Env()), Dir: proc.Dir(), Nested: stdin == nil, stdin: stdin}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script.calls = append(w.script.calls, c)
	for _, r := range slices.Backward(w.script.rules) {
		if r.reply.Times > 0 && r.used >= r.reply.Times || !r.match(*c) {
			continue
		}
		r.used++
		if r.reply.Run != nil {
			return program(p, r.reply.Run)
		}
		return r.reply.main
	}
	return nil
}

// main carries the reply out.
func (r Reply) main(proc *kernel.Proc) int {
	if r.Delay > 0 && proc.Sleep(r.Delay) != nil {
		return 1
	}
	for i, text := range []string{r.Stdout, r.Stderr} {
		if text != "" {
			_, _ = io.WriteString(proc.FD(1+i), text) // a reader that is gone is a signal
		}
	}
	if r.Signal != 0 {
		proc.Die(int(r.Signal))
	}
	return r.Exit
}

// clone returns a copy that its holder may change.
func (c Call) clone() Call {
	c.Args, c.Env = slices.Clone(c.Args), maps.Clone(c.Env)
	return c
}
