//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// exhaustedArg makes the test binary a host that runs out of descriptors.
const exhaustedArg = "berth-exhausted-reexec"

// TestHostWithoutDescriptors defends: a host that has no descriptors left, or only a
// few, is told so by an error that has a code, whatever it was doing; nothing hangs,
// nothing leaks, and everything works again once it has some.
func TestHostWithoutDescriptors(t *testing.T) {
	cmd := exec.Command(mustExecutable(t), exhaustedArg, filepath.Join(t.TempDir(), "state"), t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v", err)
	}
}

// mostFree is more descriptors than any step needs.
const mostFree = 16

// exhausted is such a host: with none to mostFree descriptors it makes a place, runs a
// command and uses files.
func exhausted(args []string) int {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: 256}); err != nil {
		fmt.Println(err)
		return 1
	}
	d, err := process.New(process.Options{Owner: "test", StateDir: args[0], BaseEnv: testEnv(), OrphanAfter: orphanAfter, ResumeWindow: resumeWindow})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	h := &needy{d: d, dir: args[1], said: map[string]bool{}}
	if err := h.run(); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// needy is a host with few descriptors.
type needy struct {
	d    driver.Driver
	dir  string
	said map[string]bool
}

// bounded is a ctx for one call, which must not need it.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

func (h *needy) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	held, err := h.d.Provision(ctx, &spec.Spec{Key: "held", Workdir: h.dir, Isolation: spec.IsolationNone}, driver.ProvisionOptions{})
	if err != nil {
		return err
	}
	defer held.Close(ctx)
	if err := h.all(held, true); err != nil {
		return fmt.Errorf("before: %w", err)
	}
	before := openFDs()
	failed := 0
	for free := range mostFree {
		release, err := hoard(free)
		if err != nil {
			return err
		}
		err = h.all(held, false)
		release()
		if errors.Is(err, errWrong) {
			return fmt.Errorf("with %d descriptors: %w", free, err)
		}
		if err != nil {
			failed++
		}
		if err := h.all(held, true); err != nil {
			return fmt.Errorf("after it had %d descriptors: %w", free, err)
		}
	}
	if failed == 0 {
		return errors.New("nothing has failed")
	}
	for err := range h.said {
		fmt.Println(err)
	}
	for end := time.Now().Add(10 * time.Second); len(openFDs()) > len(before); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("descriptors leak: %v, before %v", openFDs(), before)
		}
	}
	return h.d.Reap(ctx, "held", reapOptions)
}

var errWrong = errors.New("an error without a code, or one that says that a place is gone which is there")

// all uses the place and makes another one. must: all of it has to succeed; otherwise
// it goes on after an error and returns the last.
func (h *needy) all(held driver.Session, must bool) error {
	var last error
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"exec", func(ctx context.Context) error {
			var out bytes.Buffer
			p, err := held.Start(ctx, &spec.Command{Args: []string{"echo", "x"}}, driver.Stdio{Stdout: &out})
			if err != nil {
				return err
			}
			e, err := p.Wait(ctx)
			if err == nil && (e.Code != 0 || out.String() != "x\n") {
				err = fmt.Errorf("exit %+v, output %q", e, out.String())
			}
			return err
		}},
		{"write", func(ctx context.Context) error {
			return files.WriteFile(ctx, held.Files(), filepath.Join(h.dir, "f"), []byte("x"), files.WriteOptions{})
		}},
		{"read", func(ctx context.Context) error {
			_, err := files.ReadFile(ctx, held.Files(), filepath.Join(h.dir, "f"), 0)
			return err
		}},
		{"status", func(ctx context.Context) error { _, err := held.Status(ctx); return err }},
		{"attach", func(ctx context.Context) error {
			s, err := h.d.Attach(ctx, "held", driver.AttachOptions{})
			if err != nil {
				return err
			}
			return s.Close(ctx)
		}},
		{"owned", func(ctx context.Context) error { _, err := h.d.Owned(ctx); return err }},
		{"provision", func(ctx context.Context) error {
			s, err := h.d.Provision(ctx, &spec.Spec{Key: "another", Isolation: spec.IsolationNone}, driver.ProvisionOptions{})
			if err != nil {
				return err
			}
			return s.Close(ctx)
		}},
		{"reap", func(ctx context.Context) error { return h.d.Reap(ctx, "another", reapOptions) }},
	} {
		ctx, cancel := bounded()
		err := step.do(ctx)
		cancel()
		switch {
		case err == nil:
		case must:
			return fmt.Errorf("%s: %w", step.name, err)
		case spec.CodeOf(err) == "" || spec.CodeOf(err) == spec.CodeNotFound:
			return fmt.Errorf("%s: %w: %w", step.name, errWrong, err)
		default:
			last = err
			h.said[fmt.Sprintf("%s: %s: %v", step.name, spec.CodeOf(err), err)] = true
		}
	}
	return last
}

// openFDs lists the descriptors of this process.
func openFDs() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var out []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(to, "/fd") {
			out = append(out, e.Name()+"="+to)
		}
	}
	return out
}

// hoard takes all descriptors but some.
func hoard(free int) (release func(), err error) {
	var taken []int
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE {
			break
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, fd)
	}
	for range min(free, len(taken)) {
		_ = syscall.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	return func() {
		for _, fd := range taken {
			_ = syscall.Close(fd)
		}
	}, nil
}
