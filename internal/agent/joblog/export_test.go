//go:build linux

package joblog

import (
	"os"
	"testing"
)

// OnFile returns a log that is written to a file that is there.
func OnFile(t *testing.T, dir int, path string) *Log {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(dir, "full", 1<<20)
	l.file = &file{File: f, refs: 1}
	t.Cleanup(l.Close)
	return l
}
