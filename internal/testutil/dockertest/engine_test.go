//go:build linux

package dockertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// An engine for tests starts beside any other, makes its images without a
// registry, and leaves no process, mount, interface or directory.
func TestEngineLeavesNothing(t *testing.T) {
	var e dockertest.Engine
	host := e.Host(t)
	own := os.Getenv("BERTH_TEST_DOCKER_HOST") == ""
	for _, i := range []dockertest.Image{
		{Kind: dockertest.Busybox},
		{Kind: dockertest.Busybox, UID: 1000},
		{Kind: dockertest.Busybox, UserName: true},
		{Kind: dockertest.NoShell},
		{Kind: dockertest.Scratch},
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

// What a test process that was killed has left - the engine, its containers, its
// directory - the next start removes. The engine of one that lives is left alone.
func TestKilledTestsAreSweptUp(t *testing.T) {
	if os.Getenv("BERTH_TEST_DOCKER_HOST") != "" {
		t.Skip("the engine is not ours")
	}
	if os.Getenv("BERTH_TEST_SKIP_DOCKER") == "1" {
		t.Skip("BERTH_TEST_SKIP_DOCKER is set")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), "DOCKERTEST_VICTIM=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var host, pid string
	_, err = fmt.Fscan(out, &host, &pid)
	if err != nil {
		t.Errorf("the victim: %v", err)
	}
	dir := filepath.Dir(strings.TrimPrefix(host, "unix://"))
	var beside dockertest.Engine
	beside.Host(t)
	if err := beside.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "docker.sock")); err != nil {
		t.Errorf("an engine in use was swept up by another start: %v", err)
	}

	// Its engine is frozen, so that it cannot heed the end of its parent.
	dockerd, _ := strconv.Atoi(pid)
	_ = syscall.Kill(dockerd, syscall.SIGSTOP)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	var e dockertest.Engine
	e.Host(t)
	defer e.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v, want not exist", dir, err)
	}
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range cmdlines {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), dir) || string(text) == "sleep\x00"+victimSleep+"\x00" {
			t.Errorf("process left: %s", strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
}

const victimSleep = "86399"

// TestVictim is the process that is killed: an engine with a container, no end.
func TestVictim(t *testing.T) {
	if os.Getenv("DOCKERTEST_VICTIM") == "" {
		t.Skip("for TestKilledTestsAreSweptUp")
	}
	var e dockertest.Engine
	host, ctx := e.Host(t), context.Background()
	c, err := e.Client(t).ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: e.Image(t, dockertest.Image{Kind: dockertest.NoShell}), Cmd: []string{"sleep", victimSleep}},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err == nil {
		_, err = e.Client(t).ContainerStart(ctx, c.ID, client.ContainerStartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(host, "unix://")), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(host, string(pid))
	select {}
}
