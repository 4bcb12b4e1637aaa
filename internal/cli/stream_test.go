//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/internal/testutil/streamtest"
)

// A gigabyte of a command's output passes through berth, and through the guest, whole
// and with flat memory, though its reader stops for a while.
func TestLargeOutput(t *testing.T) {
	var engine dockertest.Engine
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, test := range []struct {
		name  string
		long  bool // not for a quick run
		setup func(t *testing.T) (env, up []string)
	}{
		{"none", false, func(*testing.T) (env, up []string) { return nil, []string{"--isolation", "none"} }},
		{"guard", true, func(*testing.T) (env, up []string) { return nil, []string{"--isolation", "guard"} }},
		{"docker", true, func(t *testing.T) (env, up []string) {
			return []string{"DOCKER_HOST=" + engine.Host(t)}, []string{"--backend", "docker", "--image", engine.Image(t, dockertest.Image{Kind: dockertest.Scratch})}
		}},
		{"ssh", true, func(t *testing.T) (env, up []string) {
			s := sshtest.Start(t, sshtest.Options{})
			return []string{"BERTH_SSH_ADDR=" + s.Addr, "BERTH_SSH_USER=" + s.User, "BERTH_SSH_KEY=" + s.KeyFile, "BERTH_SSH_KNOWN_HOSTS=" + s.KnownHosts}, []string{"--backend", "ssh"}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.long && testing.Short() {
				t.Skip("the quick tier leaves the other walls and hosts to the full one")
			}
			env, up := test.setup(t)
			largeOutput(t, env, up)
		})
	}
}

func largeOutput(t *testing.T, env, up []string) {
	size, pause := int64(64<<20), time.Second
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		size, pause = 1<<30, time.Minute
	}
	model, _ := berthCommand(t)
	berth := func(args ...string) *exec.Cmd {
		cmd := exec.Command(model.Path, args...)
		// The toolchain that builds the guest of another host has its caches in the
		// home directory.
		cmd.Dir, cmd.Env = model.Dir, append(append(model.Env, "HOME="+os.Getenv("HOME")), env...)
		return cmd
	}
	must := func(args ...string) []byte {
		t.Helper()
		out, err := berth(args...).Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out
	}
	var made struct{ ID string }
	if err := json.Unmarshal(must(append([]string{"up", "--key", "large", "--json"}, up...)...), &made); err != nil {
		t.Fatal(err)
	}
	defer must("down", "--key", "large")
	must("cp", streamtest.Build(t), "large:peer")
	cmd := berth("exec", "--key", "large", "--timeout", "0", "--", "./peer", "pour", strconv.FormatInt(size, 10))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 8)
	if _, err := io.ReadFull(out, first); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	watched := map[string]*streamtest.Memory{"berth": streamtest.Watch(t, cmd.Process.Pid), "the guest": streamtest.Watch(t, guestOf(t, made.ID))}
	time.Sleep(pause)
	began := time.Now()
	streamtest.Pattern(t, io.MultiReader(bytes.NewReader(first), out), size)
	t.Logf("%.0f MB/s after the reader had stopped for %v", float64(size)/1e6/time.Since(began).Seconds(), pause)
	if got := statusOf(t, cmd.Wait()); got != 0 || errs.Len() > 0 {
		t.Errorf("exit status %d, stderr %q", got, errs.String())
	}
	for name, m := range watched {
		t.Logf("%s grew by %d MiB to %d", name, m.Growth()>>20, m.Peak()>>20)
		if !m.Flat() {
			t.Errorf("%s grew by %d bytes", name, m.Growth())
		}
	}
}

// guestOf finds the guest of the sandbox with an id, which runs on this machine.
func guestOf(t *testing.T, id string) int {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		args, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(args), "\x00serve\x00") || !strings.Contains(string(args), id) {
			continue
		}
		// The wall has the guest's arguments among its own.
		if program, _ := os.Readlink(filepath.Join(filepath.Dir(name), "exe")); filepath.Base(program) == "bwrap" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatal("there is no guest")
	return 0
}
