//go:build linux

package dockertest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/moby/moby/client"
)

// An engine for tests starts beside any other, makes its images without a
// registry, and leaves no process, mount, interface or directory.
func TestEngineLeavesNothing(t *testing.T) {
	var e dockertest.Engine
	host := e.Host(t)
	own := os.Getenv("BERTH_TEST_DOCKER_HOST") == ""
	for _, i := range []dockertest.Image{
		{Kind: dockertest.Busybox}, {Kind: dockertest.Busybox, UID: 1000}, {Kind: dockertest.Busybox, UserName: true},
		{Kind: dockertest.NoShell}, {Kind: dockertest.Scratch},
	} {
		name := e.Image(t, i)
		if _, err := e.Client(t).ImageInspect(context.Background(), name); err != nil {
			t.Errorf("image %s: %v", name, err)
		}
	}
	if _, err := e.Client(t).Info(context.Background(), client.InfoOptions{}); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if !own {
		return
	}
	dir := filepath.Dir(strings.TrimPrefix(host, "unix://"))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v, want not exist", dir, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts left in %s (%v)", dir, err)
	}
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range cmdlines {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), dir) {
			t.Errorf("process left: %s", strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	if links, _ := filepath.Glob("/sys/class/net/bth*"); strings.Contains(strings.Join(links, " "), strings.TrimPrefix(filepath.Base(dir), "berth-dockerd-")) {
		t.Errorf("interfaces left: %v", links)
	}
}
