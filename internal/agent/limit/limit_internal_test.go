//go:build linux

package limit

import (
	"errors"
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

// Spare threads are had, within bounds, and cost nothing where none are asked for.
func TestSpareThreads(t *testing.T) {
	for _, n := range []int{-1, 0, 3, 1000} {
		c := Config{spare: n}
		c.SpareThreads()
	}
}
