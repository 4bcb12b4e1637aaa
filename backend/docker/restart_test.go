//go:build linux

package docker_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/testutil/certtest"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// privateEngine starts an engine that this test alone has.
func privateEngine(t *testing.T, args ...string) *dockertest.Engine {
	t.Helper()
	e := &dockertest.Engine{Args: args}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	e.Host(t)
	return e
}

// withTLS returns the arguments of an engine that listens at addr for those who have a
// certificate, and the directory that holds one.
func withTLS(t *testing.T) (addr, dir string, args []string) {
	t.Helper()
	ca, dir := certtest.New(t), t.TempDir()
	serverCert, serverKey := ca.Issue(t, nil)
	cert, key := ca.Issue(t, nil)
	for name, text := range map[string]string{"ca.pem": ca.PEM, "cert.pem": cert, "key.pem": key, "server-cert.pem": serverCert, "server-key.pem": serverKey} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr = "tcp://" + l.Addr().String()
	return addr, dir, []string{
		"--host", addr, "--tlsverify", "--tlscacert", filepath.Join(dir, "ca.pem"),
		"--tlscert", filepath.Join(dir, "server-cert.pem"), "--tlskey", filepath.Join(dir, "server-key.pem"),
	}
}

// interrupt runs a command that appends to a file, says so and goes on; restarts the
// engine beside it; and returns what the command came to.
func interrupt(t *testing.T, e *dockertest.Engine, sb *berth.Sandbox) (stdout string, err error) {
	t.Helper()
	ctx := testContext(t)
	begun := make(chan struct{}, 1)
	var out bytes.Buffer
	c := sb.CommandContext(ctx, "sh", "-c", "echo ran >> log; echo begun; while [ ! -e go ]; do usleep 20000; done; echo over; exit 7")
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		select {
		case begun <- struct{}{}:
		default:
		}
		return out.Write(p)
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	e.Crash(t)
	begin := time.Now()
	e.Restart(t)
	t.Logf("the engine is back after %v", time.Since(begin).Round(time.Millisecond))
	if r, err := sb.Exec(ctx, []string{"touch", "go"}, berth.ExecOptions{}); err == nil && !r.Success() {
		t.Errorf("touch: %+v", r)
	}
	err = c.Wait()
	return out.String(), err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// An engine with live-restore, reached by TLS, is killed and started again: its places
// live on, and what ran in them is known, to the byte. It takes nobody without a
// certificate, and who asks it plainly is told what it wants.
func TestEngineRestartsAndPlacesLive(t *testing.T) {
	addr, dir, args := withTLS(t)
	e := privateEngine(t, append(args, "--live-restore")...)
	ctx := testContext(t)
	o := docker.Options{Host: addr, TLS: true, TLSDir: dir, Guest: guest.BinaryOptions{Path: guestBinary(t)}, ResumeWindow: time.Minute}
	sb := provision(t, newDriver(t, o), spec.Spec{Key: "k", Image: e.Image(t, dockertest.Image{Kind: dockertest.Busybox})})
	out, err := interrupt(t, e, sb)
	var exit *berth.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 || out != "begun\nover\n" {
		t.Errorf("the command: %q, %v; want its whole output and exit status 7", out, err)
	}
	if got := sh(t, sb, "cat log"); got != "ran" {
		t.Errorf("the command left %q, want one line", got)
	}
	for _, tt := range []struct {
		name string
		o    docker.Options
		want error
		text string
	}{
		{"plainly", docker.Options{Host: addr}, spec.ErrUnavailable, "does not speak plain HTTP"},
		{"without a certificate", docker.Options{Host: addr, TLS: true, TLSDir: onlyCA(t, dir)}, spec.ErrPermission, "certificate"},
	} {
		_, err := newDriver(t, tt.o).Probe(ctx)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(spec.HintOf(err), "DOCKER_TLS_VERIFY") {
			t.Errorf("%s: %v (hint %q); want %v, with %q", tt.name, err, spec.HintOf(err), tt.want, tt.text)
		}
	}
}

// onlyCA returns a directory that holds the authority of dir and nothing else.
func onlyCA(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	other := t.TempDir()
	if err == nil {
		err = os.WriteFile(filepath.Join(other, "ca.pem"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// An engine without live-restore, reached by SSH, is killed and started again: it ends
// its places. What ran there is an unknown outcome, nothing runs twice, and Provision
// starts the place again with its files.
func TestEngineRestartsAndPlacesEnd(t *testing.T) {
	server := sshtest.Start(t, sshtest.Options{})
	sshtest.Client(t, append(server.Alias("far"), "IdentityFile "+server.KeyFile)...)
	e := privateEngine(t)
	// By another name: what bears the engine's directory in its arguments is killed with it.
	socket := filepath.Join(t.TempDir(), "s")
	if err := os.Symlink(strings.TrimPrefix(e.Host(t), "unix://"), socket); err != nil {
		t.Fatal(err)
	}
	o := docker.Options{Host: "ssh://far" + socket, Guest: guest.BinaryOptions{Path: guestBinary(t)}}
	s := spec.Spec{Key: "k", Image: e.Image(t, dockertest.Image{Kind: dockertest.Busybox})}
	d := newDriver(t, o)
	out, err := interrupt(t, e, provision(t, d, s))
	if !errors.Is(err, spec.ErrUnknownOutcome) || out != "begun\n" {
		t.Errorf("the command: %q, %v; want an unknown outcome, and what it said", out, err)
	}
	again := provision(t, d, s)
	if got := sh(t, again, "cat log"); got != "ran" {
		t.Errorf("the command left %q, want one line", got)
	}
	if n := strings.Count(server.Log(), "Accepted publickey"); n != 1 {
		t.Errorf("%d logins, want one for all", n)
	}
}
