//go:build linux

package agent_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
)

// A relay copies both ways, passes the end of its input on and ends with the stream;
// it talks to nobody but the process that it means.
func TestRelay(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers with what it got, once that has ended
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			var got bytes.Buffer
			_, _ = got.ReadFrom(conn)
			_, _ = conn.Write(got.Bytes())
			conn.Close()
		}
	}()
	relay := func(pid int, in string) (string, string, error) {
		cmd := exec.Command(mustExecutable(t), "berth-guest-reexec", "relay", "--path", socket, "--peer-pid", itoa(pid))
		var out, diag strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &diag
		err := cmd.Run()
		return out.String(), diag.String(), err
	}
	body := strings.Repeat("0123456789", 100_000)
	if out, diag, err := relay(os.Getpid(), body); err != nil || out != body {
		t.Errorf("%d bytes came back: %v %s", len(out), err, diag)
	}
	if out, diag, err := relay(1, body); err == nil || out != "" || !strings.Contains(diag, "listens on the guest's socket") {
		t.Errorf("an impostor: %q %q %v", out, diag, err)
	}
}

// With --stdio the guest serves one host and ends with it.
func TestStdio(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	far, near := os.NewFile(uintptr(fds[0]), "far"), os.NewFile(uintptr(fds[1]), "near")
	cmd := exec.Command(mustExecutable(t), "berth-guest-reexec", "serve", "--id", placeID, "--workdir", t.TempDir(), "--stdio", "--grace", "100ms")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	far.Close()
	conn, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	h, err := greet(t, conn, wire.HostHello{Client: "a", Profile: wire.Local()})
	if err != nil {
		t.Fatal(err)
	}
	r := h.mustStart(shell("echo up; exec sleep 331"))
	sleeper := findProc(t, itoa(r.started.PID))
	h.close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the guest: %v", err)
	}
	if sleeper.alive() {
		t.Error("a command outlived the place")
	}
}

// keptOpen is the host's end of a guest's standard streams, which the host never closes.
type keptOpen struct {
	io.Reader
	io.Writer
}

func (keptOpen) Close() error { return nil }

// TestStdioEndsWithoutItsHost defends: a guest on pipes ends when its time is up or it is told
// to, and soon, although its host does not close what the guest reads.
func TestStdioEndsWithoutItsHost(t *testing.T) {
	for name, args := range map[string][]string{"its time is up": {"--ttl", "500ms"}, "it is told to": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdin, near, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			out, stdout, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd := exec.Command(mustExecutable(t), append([]string{"berth-guest-reexec", "serve", "--id", placeID, "--workdir", t.TempDir(), "--stdio", "--grace", "100ms"}, args...)...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stdin.Close()
			stdout.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			conn := keptOpen{out, near}
			if _, err := wire.SendHello(t.Context(), conn, wire.HostHello{Client: "a", Profile: wire.Local()}); err != nil {
				t.Fatal(err)
			}
			mux, err := wire.HostMux(conn, wire.Local())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { go mux.Close() }() // it waits for the guest
			if args == nil {
				if _, err := (&host{t: t, mux: mux}).call(&wire.Request{Op: wire.OpShutdown, Shutdown: &wire.ShutdownRequest{}}); err != nil {
					t.Errorf("shutdown: %v", err)
				}
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the guest: %v", err)
				}
			case <-time.After(15 * time.Second):
				t.Errorf("the guest goes on until its host closes its input")
			}
		})
	}
}

// A command line that makes no sense is refused with the status for that.
func TestUsage(t *testing.T) {
	for _, args := range []string{"", "nosuch", "serve", "serve --id x --workdir rel --stdio", "serve --id x --workdir /tmp", "serve --id x --workdir /tmp --stdio --peer nobody", "serve --id x --workdir /tmp --stdio --ttl -1s", "relay", "relay --path a --abstract b", "serve --nosuch"} {
		cmd := exec.Command(mustExecutable(t), append([]string{"berth-guest-reexec"}, strings.Fields(args)...)...)
		var diag strings.Builder
		cmd.Stderr = &diag
		_ = cmd.Run()
		if cmd.ProcessState.ExitCode() != 2 || strings.Count(diag.String(), "\n") != 1 {
			t.Errorf("%q: status %d, %q", args, cmd.ProcessState.ExitCode(), diag.String())
		}
	}
}
