//go:build linux

package agent_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// A guest without privileges runs commands too, and cannot be looked into by them.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	const nobody = 65534
	// The test's own directories are closed to others.
	dir, err := os.MkdirTemp("", "berth-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := filepath.Join(dir, "guest")
	if err := copyFile(self, mustExecutable(t)); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, home} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	wrapper := []string{
		"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c",
		`shift; exec "$0" "$@" --workdir ` + home, self,
	}
	p := startPlaceUnder(t, wrapper)
	p.workdir = home
	h := p.dial("a")
	got := h.run(shell("id -u; pwd; readlink /proc/$PPID/cwd || echo hidden; ls /proc/self/fd | wc -l"))
	if want := "65534\n" + home + "\nhidden\n4\n"; got.Stdout != want {
		t.Errorf("got %+v, want %q", got, want)
	}
	r := h.mustStart(shell(`trap '' TERM;` + escape + `wait; sleep 300`))
	procs := p.escaped(h)
	r.tell(killNow)
	if got := r.wait(); got.Exit.Signal != 9 || got.Exit.Kill == spec.KillNone {
		t.Errorf("killed: %+v", got.Exit)
	}
	mustBeGone(t, procs)
	if got := h.run(command("cat", "/etc/shadow")); got.Exit.Code == 0 || !strings.Contains(got.Stderr, "denied") {
		t.Errorf("it reads what it must not: %+v", got.Exit)
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
