//go:build linux

package main

import (
	"context"
	"os"
	"testing"

	"github.com/berth-dev/berth/guest/selfexec"
)

func TestMain(m *testing.M) {
	selfexec.Main()
	os.Exit(m.Run())
}

// What README shows works.
func TestWork(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if err := work(context.Background()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile("report.txt"); err != nil || string(data) != "hello\n" {
		t.Errorf("report.txt: %q, %v", data, err)
	}
}
