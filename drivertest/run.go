package drivertest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// suite is one run over one backend.
type suite struct {
	options Options
	mark    string // the prefix of all marks of this run
	driver  driver.Driver
	shared  *berth.Sandbox // for the cases that disturb nothing
	caps    spec.Caps      // of shared
}

// open makes the driver and the shared place.
func open(ctx context.Context, o Options) (*suite, error) {
	o = o.withDefaults()
	if o.Open == nil {
		return nil, errors.New("drivertest: Options.Open is nil")
	}
	d, err := o.Open()
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	s := &suite{options: o, mark: "run-" + randomHex(), driver: d}
	ctx, cancel := context.WithTimeout(ctx, 2*o.Timeout)
	defer cancel()
	if s.shared, err = berth.Provision(ctx, d, o.Spec); err != nil {
		return nil, fmt.Errorf("provision a place: %w", err)
	}
	if s.caps, err = s.shared.Caps(ctx); err != nil {
		return nil, errors.Join(err, s.close(ctx))
	}
	return s, nil
}

func (s *suite) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	return s.shared.Close(ctx)
}

// alike are the cases that Options.Brief leaves out.
var alike = regexp.MustCompile("^(Files(Glob|Gitignore|Grep|ReadLines|View|IOFS|Entries|Edit|Replace|Hash|Size|Names|WriteIf|Bulk|Many|Watch|Tree[^N])|" +
	"Job(Log|HandOver|EndIs|Stall|Key|Of|List|sOf)|Kept|Command(Key|Env)|Terminate|Output(IsCapped|AtTheCap)|Mixed|Refused|Stale|Replace|" +
	"Terminal(Replay|OfNobody|Waits|Slow|Viewers|That|Options|After)|Ports(Many|HoldBack|HaveDeadlines|ListenOnce)|Events(Come|GoOn|Tell(Files|Jobs|Clients|Terminals|Connections|Watches)|WaitFor|Begin))")

// chosen returns the cases that the options ask for.
func (s *suite) chosen() []Case {
	var out []Case
	for _, c := range Cases() {
		if (s.options.Soak || !c.Soak) && (s.options.Only == nil || s.options.Only.MatchString(c.Name)) &&
			!(s.options.Brief && alike.MatchString(c.Name)) {
			out = append(out, c)
		}
	}
	return out
}

// skip says why c cannot run here, or "".
func (s *suite) skip(c Case) string {
	if c.Need == nil {
		return ""
	}
	missing := c.Need(s.caps)
	if missing == "" {
		return ""
	}
	if why := s.caps.Why(missing); why != "" {
		return "not declared: " + missing + ": " + why
	}
	return "not declared: " + missing
}

// run runs one case; T says what became of it.
func (s *suite) run(ctx context.Context, t T, c Case) {
	o := s.options
	ctx, cancel := context.WithTimeout(ctx, o.Timeout+o.OrphanAfter+o.ResumeWindow)
	defer cancel()
	e := &Env{Options: o, Driver: s.driver, Sandbox: s.shared, Caps: s.caps, Mark: s.mark + "-" + c.Name + "-" + randomHex()}
	defer e.cleanup(t)
	if c.Own {
		e.Sandbox = e.Provision(ctx, t, e.Spec())
	}
	c.Run(ctx, t, e)
}

// leaks reports the processes in the shared place that outlived their cases.
func (s *suite) leaks(ctx context.Context, t T) {
	if needShell(s.caps) != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	e := &Env{Options: s.options, Sandbox: s.shared}
	var left []string
	gone := e.Eventually(ctx, func() bool {
		left = e.Marked(ctx, t, s.shared, s.mark)
		return len(left) == 0
	})
	if gone {
		return
	}
	for _, pid := range left {
		dir := "/proc/" + pid
		r, err := s.shared.Exec(ctx, []string{"cat", dir + "/environ", dir + "/cmdline"}, berth.ExecOptions{})
		if err != nil {
			t.Fatalf("read about process %s: %v", pid, err)
		}
		_, mark, _ := strings.Cut(string(r.Stdout), markName+"="+s.mark+"-")
		fields := strings.Split(mark, "\x00")
		t.Errorf("process %s is left of case %s: %.200q", pid, fields[0], fields[1:])
	}
}

// leakRule is what the check after the cases defends.
const leakRule = "No process of an ended command is left, but those that it started in the background on purpose."

// Run runs the cases as subtests of t, Options.Parallel at once. A case that fails
// prints its rule.
func Run(t *testing.T, o Options) {
	t.Helper()
	ctx := t.Context()
	s, err := open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(context.Background()); err != nil {
			t.Errorf("close the shared place: %v", err)
		}
	})
	slots := make(chan struct{}, s.options.Parallel)
	t.Run("cases", func(t *testing.T) {
		for _, c := range s.chosen() {
			t.Run(c.Name, func(t *testing.T) {
				if reason := s.skip(c); reason != "" {
					t.Skip(reason)
				}
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				defer func() {
					if t.Failed() {
						t.Logf("rule: %s", c.Rule)
					}
				}()
				s.try(t, func(t T) { s.run(context.WithoutCancel(ctx), t, c) })
			})
		}
	})
	t.Run("NothingIsLeft", func(t *testing.T) {
		s.try(t, func(t T) { s.leaks(ctx, t) })
	})
}

// try runs fn with what passes its words on to t, until fn ends or is given up.
func (s *suite) try(t tester, fn func(T)) {
	t.Helper()
	r := &runner{tester: t}
	s.await(r, fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.skipped != nil {
		t.Skip(r.skipped...)
	}
}

// tester is the part of *testing.T that try needs.
type tester interface {
	T
	Skip(args ...any)
}

// runner is the T of Run. It is used in another goroutine than the test's, also after the
// test has ended, which no *testing.T can be.
type runner struct {
	tester

	mu      sync.Mutex
	over    bool
	skipped []any
}

func (r *runner) Logf(format string, args ...any) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.tester.Logf(format, args...)
	}
}

func (r *runner) Errorf(format string, args ...any) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.tester.Errorf(format, args...)
	}
}

func (r *runner) Fatalf(format string, args ...any) {
	r.Helper()
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Skip ends a case that the place has no object for.
func (r *runner) Skip(args ...any) {
	r.mu.Lock()
	r.skipped = args
	r.mu.Unlock()
	runtime.Goexit()
}
