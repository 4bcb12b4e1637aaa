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
	t.Run("docker", func(t *testing.T) { leavesNothing(t, &dockertest.Engine{}, os.Getenv("BERTH_TEST_DOCKER_HOST") == "") })
	t.Run("podman", func(t *testing.T) { leavesNothing(t, dockertest.Podman(), os.Getenv("BERTH_TEST_PODMAN_HOST") == "") })
}

func leavesNothing(t *testing.T, e *dockertest.Engine, own bool) {
	host := e.Host(t)
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
	for _, tt := range []struct {
		name, skip, host string
		engine           func() *dockertest.Engine
	}{
		{"docker", "BERTH_TEST_SKIP_DOCKER", "BERTH_TEST_DOCKER_HOST", newDocker},
		{"podman", "BERTH_TEST_SKIP_PODMAN", "BERTH_TEST_PODMAN_HOST", dockertest.Podman},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Getenv(tt.host) != "" {
				t.Skip("the engine is not ours")
			}
			if os.Getenv(tt.skip) == "1" {
				t.Skip(tt.skip + " is set")
			}
			sweptUp(t, tt.name, tt.engine)
		})
	}
}

func newDocker() *dockertest.Engine { return &dockertest.Engine{} }

func sweptUp(t *testing.T, name string, engine func() *dockertest.Engine) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), "DOCKERTEST_VICTIM="+name)
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
	socket := strings.TrimPrefix(host, "unix://")
	dir := filepath.Dir(socket)
	beside := engine()
	beside.Host(t)
	if err := beside.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := os.Stat(socket); err != nil {
		t.Errorf("an engine in use was swept up by another start: %v", err)
	}

	// Its engine is frozen, so that it cannot heed the end of its parent.
	if daemon, err := strconv.Atoi(pid); err == nil {
		_ = syscall.Kill(daemon, syscall.SIGSTOP)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()

	e := engine()
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

// TestVictim is the process that is killed: an engine with a container that runs and one
// that is paused, no end.
func TestVictim(t *testing.T) {
	if os.Getenv("DOCKERTEST_VICTIM") == "" {
		t.Skip("for TestKilledTestsAreSweptUp")
	}
	e := newDocker()
	if os.Getenv("DOCKERTEST_VICTIM") == "podman" {
		e = dockertest.Podman()
	}
	host, ctx := e.Host(t), context.Background()
	for _, pause := range []bool{false, true} {
		c, err := e.Client(t).ContainerCreate(ctx, client.ContainerCreateOptions{
			Config:     &container.Config{Image: e.Image(t, dockertest.Image{Kind: dockertest.NoShell}), Cmd: []string{"sleep", victimSleep}},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		})
		if err == nil {
			_, err = e.Client(t).ContainerStart(ctx, c.ID, client.ContainerStartOptions{})
		}
		if err == nil && pause {
			_, err = e.Client(t).ContainerPause(ctx, c.ID, client.ContainerPauseOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Podman ends with its namespaces: it has no such file, and cannot outlive us.
	pid, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(host, "unix://")), "pid"))
	if err != nil {
		pid = []byte("none")
	}
	fmt.Println(host, string(pid))
	select {}
}
