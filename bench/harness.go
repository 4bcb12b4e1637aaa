package main

import (
	"fmt"
	"io"
	"os"
	"testing"
)

// harness lets the helpers that start real services for tests serve here too. It
// has the methods of testing.TB that they use; a failure is a panic with a failure
// value, which try turns into an error.
type harness struct {
	testing.TB // for the method that cannot be written elsewhere
	log        io.Writer
	cleanups   []func()
}

type failure struct{ text string }

func (h *harness) Helper() {}

func (h *harness) Name() string { return "bench" }

func (h *harness) Logf(format string, args ...any) { fmt.Fprintf(h.log, format+"\n", args...) }

func (h *harness) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

func (h *harness) Fatal(args ...any) { panic(failure{fmt.Sprint(args...)}) }

func (h *harness) Fatalf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (h *harness) Skip(args ...any) { panic(failure{fmt.Sprint(args...)}) }

func (h *harness) Skipf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

func (h *harness) Error(args ...any) { fmt.Fprintln(h.log, args...) }

func (h *harness) Errorf(format string, args ...any) { h.Logf(format, args...) }

func (h *harness) TempDir() string {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// try runs fn, then whatever was to be cleaned up, last first.
func (h *harness) try(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s", f.text)
		}
	}()
	defer func() {
		for i := len(h.cleanups) - 1; i >= 0; i-- {
			h.cleanups[i]()
		}
	}()
	return fn()
}
