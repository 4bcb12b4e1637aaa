// Command testreport reads what "go test -json" prints and shows what a person wants
// of it: a line for each package, the output of what failed, and the number of tests
// at the end. It exits 1 if anything failed, or if nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	r := &report{out: os.Stdout, output: map[test]*strings.Builder{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 || r.broken > 0 || r.passed == 0 {
		os.Exit(1)
	}
}

// event is one line of "go test -json".
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// test names what output belongs to: a test, a package, or a build.
type test struct{ pkg, name string }

type report struct {
	out    io.Writer
	output map[test]*strings.Builder // of what has not ended yet

	passed, failed, skipped int
	broken                  int // packages that failed as a whole
}

// read takes all events. A line that is none is passed on: a tool said it.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			r.out.Write(line)
		default:
			r.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.keep(t, e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.endPackage(e, t)
		} else {
			r.endTest(e, t)
		}
		delete(r.output, t)
	}
}

func (r *report) keep(t test, text string) {
	b := r.output[t]
	if b == nil {
		b = &strings.Builder{}
		r.output[t] = b
	}
	b.WriteString(text)
}

func (r *report) endTest(e event, t test) {
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	case "fail":
		r.failed++
		r.show(t)
	}
}

// endPackage prints the line that go test prints: "ok", "FAIL" or "?". What else a
// package said is worth reading only where it failed.
func (r *report) endPackage(e event, t test) {
	if e.Action == "fail" {
		r.broken++
		// Tests that were running when the process died have no end of their own.
		for other := range r.output {
			if other.pkg == t.pkg && other.name != "" {
				r.failed++
				r.show(other)
				delete(r.output, other)
			}
		}
		r.show(t)
		return
	}
	if b := r.output[t]; b != nil {
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "ok") || strings.HasPrefix(line, "?") {
				fmt.Fprint(r.out, line)
			}
		}
	}
}

func (r *report) show(t test) {
	if b := r.output[t]; b != nil {
		fmt.Fprint(r.out, b.String())
	}
}
