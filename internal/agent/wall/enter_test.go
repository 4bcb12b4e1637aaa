//go:build linux

package wall

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// enter is what Enter says with these arguments, and the environment after it.
func enter(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	var c Config
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	c.Flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := c.Enter()
	return c.Environ(), err
}

// lies is the argument that says what is at a path, as if it were at another.
func lies(t *testing.T, path, at string) string {
	t.Helper()
	var st syscall.Stat_t
	must(t, syscall.Stat(path, &st))
	return fmt.Sprintf("%d:%d:%s", st.Dev, st.Ino, at)
}

// TestEnterMounted defends: a guest does not serve where another directory was mounted than
// the host had seen, where nothing was, or where the way leads through a link.
func TestEnterMounted(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(filepath.Join(base, "dir"), 0o700), os.Symlink("/", filepath.Join(base, "link")))
	for name, tc := range map[string]struct {
		path, at, want string
	}{
		"as it was seen":    {"/proc", "/proc", ""},
		"another one":       {base, "/proc", "it is another file"},
		"no mount":          {base + "/dir", base + "/dir", "nothing is mounted there"},
		"a link on the way": {"/proc", base + "/link/proc", "too many levels"},
		"it is gone":        {"/proc", base + "/none", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := enter(t, "--mounted", lies(t, "/proc", "/proc"), "--mounted", lies(t, tc.path, tc.at))
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.at+" was replaced")) {
				t.Errorf("got %v, want %q of %s", err, tc.want, tc.at)
			}
		})
	}
}

// TestEnterEnviron defends: the environment of commands is what the guest was handed, byte
// for byte, with the directory that the wrapper starts it in; also if the guest begins
// again; and what was cut off is refused.
func TestEnterEnviron(t *testing.T) {
	t.Setenv("PWD", "/somewhere")
	for text, want := range map[string][]string{
		"A=1\x00B=\xff\n two \x00C=\x00":           {"A=1", "B=\xff\n two ", "C=", "PWD=/somewhere"},
		"A=1\x00B=2":                               nil,
		"A=" + strings.Repeat("x", 1<<20):          nil,
		"L=" + strings.Repeat("x", 1<<20) + "\x00": {"L=" + strings.Repeat("x", 1<<20), "PWD=/somewhere"},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "environ"))
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		for range 2 {
			got, err := enter(t, "--environ-fd", strconv.Itoa(int(f.Fd())))
			if (err != nil) != (want == nil) {
				t.Errorf("%.20q: %v", text, err)
			}
			if diff := cmp.Diff(want, got); err == nil && diff != "" {
				t.Errorf("%.20q: %.200s", text, diff)
			}
		}
		f.Close()
	}
	if own, err := enter(t); err != nil || !cmp.Equal(own, os.Environ()) {
		t.Errorf("without one: %q, %v; want this program's own", own, err)
	}
}
