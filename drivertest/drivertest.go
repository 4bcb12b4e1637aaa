package drivertest

import (
	"context"
	"regexp"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Options say what is tested, and how.
type Options struct {
	// Open returns a fresh driver value, as another process would have one. All
	// of them must find each other's places.
	Open func() (driver.Driver, error)
	// Spec is the base of every spec: an image, an isolation level. Its Key is
	// not used.
	Spec spec.Spec
	// Timeout bounds each case; 0: 60 s, and ten minutes with Soak. A case that
	// waits for OrphanAfter or ResumeWindow gets these on top.
	Timeout time.Duration
	// Parallel is how many cases run at once; 0: 4.
	Parallel int
	// OrphanAfter and ResumeWindow are as the driver was configured; 0: the
	// guest's defaults of 30 s and 10 s.
	OrphanAfter, ResumeWindow time.Duration
	// Soak runs the cases too that repeat or move a lot, and the others with
	// higher counts.
	Soak bool
	// Only, if set, runs the cases whose name it matches.
	Only *regexp.Regexp
	// Brief leaves out what the guest does with bytes and records alone, which is the same
	// in every place of a backend: it is for one more kind of place, when another has
	// passed the whole suite. Soak overrules it.
	Brief bool
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if o.Soak {
		set(&o.Timeout, 10*time.Minute)
	}
	set(&o.Timeout, 60*time.Second)
	set(&o.OrphanAfter, 30*time.Second)
	set(&o.ResumeWindow, 10*time.Second)
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	o.Spec.Key = ""
	o.Brief = o.Brief && !o.Soak
	return o
}

// T is the part of *testing.T that cases use.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf ends the case; it is called from the case's goroutine only.
	Fatalf(format string, args ...any)
}

// Case is one promise and how it is tried.
type Case struct {
	// Name is one word, unique, in mixed caps.
	Name string
	// Rule is the promise as the contract states it; it is printed on failure.
	Rule string
	// Need says which declared capability is missing, or "" if the case can
	// run. nil: it runs everywhere.
	Need func(spec.Caps) string
	// Own gives the case a place of its own, because it disturbs the place or
	// counts what is in it. Otherwise it shares one with other cases.
	Own bool
	// Soak marks a case that runs only if Options.Soak is set.
	Soak bool
	// Run tries the promise. ctx ends when the case's time is up.
	Run func(ctx context.Context, t T, e *Env)
}

// Cases returns all cases, in the order in which they run.
func Cases() []Case {
	var all []Case
	for _, topic := range [][]Case{
		execCases(), setupCases(), streamCases(), environCases(), workdirCases(), killCases(), terminateCases(), silenceCases(), backgroundCases(),
		placeCases(), ownerCases(), keyCases(), fileCases(), rootCases(),
		jobCases(), jobLogCases(), jobOwnerCases(), limitCases(), oomCases(),
		hostileCases(), hostileGuestCases(), socketCases(), terminalCases(), terminalViewCases(), terminalCancelCases(), watchCases(), portCases(), portProgramCases(), eventCases(), suspendCases(), idleCases(), mixedCases(), resultCases(),
	} {
		all = append(all, topic...)
	}
	return all
}

// The common needs.

func needShell(c spec.Caps) string {
	if !c.Shell {
		return "shell"
	}
	return needCoreutils(c)
}

func needCoreutils(c spec.Caps) string {
	if !c.Coreutils {
		return "coreutils"
	}
	return ""
}

func needKeyed(c spec.Caps) string {
	if !c.Keyed {
		return "keyed"
	}
	return ""
}

func needShielded(c spec.Caps) string {
	if !c.Shielded {
		return "shielded"
	}
	return ""
}

// all needs everything that each of needs does.
func all(needs ...func(spec.Caps) string) func(spec.Caps) string {
	return func(c spec.Caps) string {
		for _, need := range needs {
			if missing := need(c); missing != "" {
				return missing
			}
		}
		return ""
	}
}
