package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

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

// chosen returns the cases that the options ask for.
func (s *suite) chosen() []Case {
	var out []Case
	for _, c := range Cases() {
		if (s.options.Soak || !c.Soak) && (s.options.Only == nil || s.options.Only.MatchString(c.Name)) {
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
	e := &Env{Options: s.options, Sandbox: s.shared}
	var left []string
	gone := e.Eventually(ctx, func() bool {
		left = e.Marked(ctx, t, s.shared, s.mark)
		return len(left) == 0
	})
	if !gone {
		t.Errorf("cases left processes behind: pids %v", left)
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
				s.run(context.WithoutCancel(ctx), t, c)
			})
		}
	})
	t.Run("NothingIsLeft", func(t *testing.T) { s.leaks(ctx, t) })
}

// Outcome is how a case ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Result is what became of one case.
type Result struct {
	Case     string
	Rule     string
	Outcome  Outcome
	Reason   string   // of a skip
	Messages []string // what the case said
	Duration time.Duration
}

// Report is what became of all.
type Report struct {
	Caps                    spec.Caps
	Passed, Failed, Skipped int
	Results                 []Result
}

// OK reports that no case failed and one passed at least.
func (r Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

// Check runs the cases outside of go test, Options.Parallel at once, and calls
// report, if set, with each result as it comes, never concurrently. The error is for
// a suite that could not run at all; a case that failed is in the Report.
func Check(ctx context.Context, o Options, report func(Result)) (Report, error) {
	s, err := open(ctx, o)
	if err != nil {
		return Report{}, err
	}
	c := &checker{suite: s, report: report}
	c.out.Caps = s.caps
	slots := make(chan struct{}, s.options.Parallel)
	var all sync.WaitGroup
	for _, one := range s.chosen() {
		if reason := s.skip(one); reason != "" {
			c.add(Result{Case: one.Name, Rule: one.Rule, Outcome: Skipped, Reason: reason})
			continue
		}
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-slots }()
			c.add(c.one(ctx, one.Name, one.Rule, func(t T) { s.run(ctx, t, one) }))
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return c.out, errors.Join(err, s.close(ctx))
	}
	c.add(c.one(ctx, "NothingIsLeft", leakRule, func(t T) { s.leaks(ctx, t) }))
	return c.out, s.close(ctx)
}

type checker struct {
	suite  *suite
	report func(Result)

	mu  sync.Mutex
	out Report
}

func (c *checker) add(r Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.Outcome {
	case Passed:
		c.out.Passed++
	case Failed:
		c.out.Failed++
	case Skipped:
		c.out.Skipped++
	}
	c.out.Results = append(c.out.Results, r)
	if c.report != nil {
		c.report(r)
	}
}

// one runs fn in a goroutine of its own, which Fatalf can end. A case that ignores
// the end of its time is given up, so that the others are still heard.
func (c *checker) one(ctx context.Context, name, rule string, fn func(T)) Result {
	rec := &recorder{}
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				rec.Errorf("panic: %v\n%s", p, stack())
			}
		}()
		fn(rec)
	}()
	o := c.suite.options
	giveUp := time.NewTimer(3*o.Timeout + o.OrphanAfter + o.ResumeWindow)
	defer giveUp.Stop()
	select {
	case <-done:
	case <-giveUp.C:
		rec.Errorf("the case did not end after its time was up")
	}
	return rec.result(name, rule, time.Since(start))
}

func stack() string {
	buf := make([]byte, 4<<10)
	return string(buf[:runtime.Stack(buf, false)])
}

// recorder is the T of Check.
type recorder struct {
	mu       sync.Mutex
	failed   bool
	messages []string
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(format string, args ...any) { r.say(false, format, args) }

func (r *recorder) Errorf(format string, args ...any) { r.say(true, format, args) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.say(true, format, args)
	runtime.Goexit()
}

func (r *recorder) say(failed bool, format string, args []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.messages = append(r.messages, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

func (r *recorder) result(name, rule string, took time.Duration) Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Result{Case: name, Rule: rule, Outcome: Passed, Messages: append([]string(nil), r.messages...), Duration: took}
	if r.failed {
		out.Outcome = Failed
	}
	return out
}
