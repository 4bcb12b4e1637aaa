package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

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
// a suite that could not run at all, CodeInvalid where Options.Only chooses no case; a
// case that failed is in the Report.
func Check(ctx context.Context, o Options, report func(Result)) (Report, error) {
	if len((&suite{options: o}).chosen()) == 0 {
		return Report{}, &spec.Error{
			Code: spec.CodeInvalid, Err: fmt.Errorf("no case has a name that matches %q", o.Only), Hint: "cases that repeat or move a lot are among them with Soak (--soak) only",
		}
	}
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
			c.add(c.one(one.Name, one.Rule, func(t T) { s.run(ctx, t, one) }))
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return c.out, errors.Join(err, s.close(ctx))
	}
	c.add(c.one("NothingIsLeft", leakRule, func(t T) { s.leaks(ctx, t) }))
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

// one runs fn, which is a case or the check after them.
func (c *checker) one(name, rule string, fn func(T)) Result {
	rec := &recorder{}
	start := time.Now()
	c.suite.await(rec, fn)
	return rec.result(name, rule, time.Since(start))
}

// await runs fn in a goroutine of its own, which Fatalf can end. A case that ignores
// the end of its time is given up, so that the others are still heard.
func (s *suite) await(t T, fn func(T)) {
	done, name := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, stack())
			}
		}()
		head, _, _ := strings.Cut(stack(), "[") // "goroutine 7 "
		name <- head
		fn(t)
	}()
	o := s.options
	giveUp := time.NewTimer(3*o.Timeout + o.OrphanAfter + o.ResumeWindow)
	defer giveUp.Stop()
	select {
	case <-done:
	case <-giveUp.C:
		t.Errorf("the case did not end after its time was up: it waits at\n%s", stackOf(<-name))
	}
}

func stack() string {
	buf := make([]byte, 4<<10)
	return string(buf[:runtime.Stack(buf, false)])
}

// stackOf returns the stack of the goroutine that begins with head.
func stackOf(head string) string {
	buf := make([]byte, 4<<20)
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.HasPrefix(one, head) {
			return one
		}
	}
	return "a place that is not known"
}

// recorder is the T of Check.
type recorder struct {
	mu       sync.Mutex
	failed   bool
	skipped  string
	messages []string
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(format string, args ...any) { r.say(false, format, args) }

func (r *recorder) Errorf(format string, args ...any) { r.say(true, format, args) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.say(true, format, args)
	runtime.Goexit()
}

// Skip ends a case that the place has no object for.
func (r *recorder) Skip(args ...any) {
	r.mu.Lock()
	r.skipped = fmt.Sprint(args...)
	r.mu.Unlock()
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
	switch {
	case r.failed:
		out.Outcome = Failed
	case r.skipped != "":
		out.Outcome, out.Reason = Skipped, r.skipped
	}
	return out
}
