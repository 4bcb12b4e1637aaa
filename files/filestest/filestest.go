// Package filestest is the contract of package files as cases that anyone can run
// on an implementation of their own: by Run in a Go test, or one by one through
// Cases where there is none.
package filestest

import (
	"context"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
)

// T is the part of *testing.T that cases use.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf ends the case; it is called from the case's goroutine only.
	Fatalf(format string, args ...any)
}

// Env is what a case works on.
type Env struct {
	FS files.FS
	// Dir is an empty directory of this case alone, an absolute name without
	// a link in it. A case leaves nothing elsewhere.
	Dir string
	// Shell runs a POSIX shell script in the place and returns its output; an
	// exit status other than 0 is an error. It makes what the contract cannot:
	// links and FIFOs. nil: there is none. An FS with the methods Symlink and
	// Mkfifo needs none for these.
	Shell func(ctx context.Context, script string) (string, error)
	// Soak makes the cases longer that repeat or move a lot.
	Soak bool
}

// Case is one promise and how it is tried.
type Case struct {
	// Name is one word, unique, in mixed caps.
	Name string
	// Rule is the promise as the contract states it; it is printed on failure.
	Rule string
	// Run tries the promise on what e holds. Where Missing names something it
	// only says so to t.
	Run func(ctx context.Context, t T, e Env)

	need need
}

// Missing says what c needs and e does not have, or "".
func (c Case) Missing(ctx context.Context, e Env) string {
	if c.need == nil {
		return ""
	}
	return c.need(ctx, e)
}

// need says what is missing, or "".
type need func(ctx context.Context, e Env) string

// Cases returns all cases.
func Cases() []Case {
	var all []Case
	for _, topic := range [][]Case{
		readCases(), writeCases(), replaceCases(), specialCases(), linkCases(), nameCases(), entryCases(), renameCases(),
		conditionCases(), batchCases(), modeCases(), copyCases(), globCases(), ignoreCases(), grepCases(), linesCases(),
		editCases(), entriesCases(), viewCases(), ioCases(), hostileCases(), watchCases(), treeCases(), symlinkCases(),
	} {
		all = append(all, topic...)
	}
	for i, c := range all {
		all[i].Run = func(ctx context.Context, t T, e Env) {
			t.Helper()
			if missing := c.Missing(ctx, e); missing != "" {
				t.Logf("not tried: %s", missing)
				return
			}
			c.Run(ctx, t, e)
		}
	}
	return all
}

// timeout bounds a case of Run.
func (e Env) timeout() time.Duration {
	if e.Soak {
		return 10 * time.Minute
	}
	return time.Minute
}

// Run runs every case as a subtest on what open returns for it.
func Run(t *testing.T, open func(t *testing.T) Env) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			e := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), e.timeout())
			defer cancel()
			if missing := c.Missing(ctx, e); missing != "" {
				t.Skip(missing)
			}
			defer func() {
				if t.Failed() {
					t.Logf("rule: %s", c.Rule)
				}
			}()
			c.Run(ctx, t, e)
		})
	}
}
