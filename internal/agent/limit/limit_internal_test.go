//go:build linux

package limit

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What cannot be joined or run is refused before anything is.
func TestJoinRefuses(t *testing.T) {
	for name, try := range map[string]struct {
		args  []string
		usage bool
	}{
		"no program":       {[]string{"--group", "/x"}, true},
		"a relative one":   {[]string{"--", "true"}, true},
		"an unknown flag":  {[]string{"--nope", "--", "/bin/true"}, true},
		"no such group":    {[]string{"--group", "/nonexistent", "--", "/bin/true"}, false},
		"no such program":  {[]string{"--as", "x", "--", "/nonexistent"}, false},
		"a file for group": {[]string{"--group", "/etc/passwd", "--", "/bin/true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := Join(try.args)
			if err == nil || errors.Is(err, ErrUsage) != try.usage || !strings.Contains(err.Error(), "join") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// What keeps the group until it is joined does not reach the program.
func TestJoinLetsGo(t *testing.T) {
	const asked = "BERTH_TEST_JOIN"
	if os.Getenv(asked) != "" {
		t.Fatal(Join([]string{"--hold-fd", "3", "--", "/bin/sh", "-c", "[ -e /proc/$$/fd/2 ] && [ ! -e /proc/$$/fd/3 ]"}))
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestJoinLetsGo$")
	cmd.Env = append(os.Environ(), asked+"=1")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cmd.ExtraFiles = []*os.File{w}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// Spare threads are had, within bounds, and cost nothing where none are asked for.
func TestSpareThreads(t *testing.T) {
	for _, n := range []int{-1, 0, 3, 1000} {
		c := Config{spare: n}
		c.SpareThreads()
	}
}
