package spec_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/spec"
)

func TestValidateKey(t *testing.T) {
	good := []spec.Key{"a", "Z", "0", "session-1", "a.b_c-d", "0-", "a..b", spec.Key(strings.Repeat("k", 128))}
	bad := []spec.Key{"", "-a", ".a", "_a", "a/b", "a b", "a\n", "a\x00", "é", "a:b", "..", "a\xff", spec.Key(strings.Repeat("k", 129))}
	for _, k := range good {
		if err := spec.ValidateKey(k); err != nil {
			t.Errorf("%q: %v", k, err)
		}
	}
	for _, k := range bad {
		if err := spec.ValidateKey(k); !errors.Is(err, spec.ErrInvalid) {
			t.Errorf("%q: %v", k, err)
		}
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, s := range []string{"", "a", "-a", "a b", "a\n", "é", strings.Repeat("k", 129)} {
		f.Add(s)
	}
	grammar := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		err := spec.ValidateKey(spec.Key(s))
		if (err == nil) != grammar.MatchString(s) {
			t.Errorf("%q: %v", s, err)
		}
		fit(t, err)
	})
}

// fit checks that an error may be printed: one line, bounded, no control bytes.
func fit(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("not fit to print: %.300q", text)
	}
}

// Names follow their grammar, values hold any byte but NUL, and no error shows a
// value.
func TestValidateEnv(t *testing.T) {
	good := map[string]string{"A": "", "_": "x", "a_1": "with space $(X) \n\xff", "PATH": strings.Repeat("x", spec.MaxArgBytes-5)}
	if err := spec.ValidateEnv(good); err != nil {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "A=B", "1A", "A B", "A-B", "A\n", "A\x00", "é", "=", strings.Repeat("x", 1000) + "!"} {
		if err := spec.ValidateEnv(map[string]string{"GOOD": "1", name: "secret"}); !errors.Is(err, spec.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("name %.20q: %v", name, err)
		}
	}
	if err := spec.ValidateEnv(map[string]string{"A": "secret\x00"}); !errors.Is(err, spec.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a NUL in a value: %v", err)
	}
	if err := spec.ValidateEnv(map[string]string{"A": strings.Repeat("x", spec.MaxArgBytes)}); !errors.Is(err, spec.ErrTooLarge) {
		t.Errorf("a value that no exec takes: %v", err)
	}
	many := map[string]string{}
	for i := range 20_000 {
		many[fmt.Sprintf("V%d", i)] = ""
	}
	if err := spec.ValidateEnv(many); !errors.Is(err, spec.ErrInvalid) {
		t.Errorf("20,000 entries: %v", err)
	}
	// Of several bad names it is always the same one.
	for range 20 {
		if err := spec.ValidateEnv(map[string]string{"b!": "", "a!": "", "c!": ""}); !strings.Contains(err.Error(), `"a!"`) {
			t.Errorf("the first bad name is not the first: %v", err)
		}
	}
}

func FuzzValidateEnv(f *testing.F) {
	f.Add("A", "value")
	f.Add("A=B", "value")
	f.Add("1", "")
	f.Add("OK", "nul\x00")
	grammar := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\z`)
	f.Fuzz(func(t *testing.T, name, value string) {
		err := spec.ValidateEnv(map[string]string{name: value})
		good := grammar.MatchString(name) && !strings.Contains(value, "\x00") && len(name)+1+len(value) <= spec.MaxArgBytes
		if (err == nil) != good {
			t.Errorf("%q=%q: %v", name, value, err)
		}
		fit(t, err)
	})
}

func TestValidatePath(t *testing.T) {
	for _, p := range []string{"a", "/", ".", "..", "a\nb", "\xff", "-", " ", strings.Repeat("x", spec.MaxPathBytes)} {
		if err := spec.ValidatePath(p); err != nil {
			t.Errorf("%.20q: %v", p, err)
		}
	}
	for _, p := range []string{"", "a\x00b", "\x00", strings.Repeat("x", spec.MaxPathBytes+1)} {
		if err := spec.ValidatePath(p); !errors.Is(err, spec.ErrInvalidPath) {
			t.Errorf("%.20q: %v", p, err)
		}
	}
}

// A spec that makes no sense on any backend is refused before one is asked.
func TestSpecValidate(t *testing.T) {
	if err := (&spec.Spec{}).Validate(); err != nil {
		t.Errorf("an empty spec: %v", err)
	}
	if err := full().Validate(); err != nil {
		t.Errorf("a full spec: %v", err)
	}
	for _, workdir := range []string{"/procure", "/a/proc", "/w/../x"} {
		if err := (&spec.Spec{Workdir: workdir}).Validate(); err != nil {
			t.Errorf("workdir %q: %v", workdir, err)
		}
	}
	// Eight values of 128 KiB, each as large as one can be.
	most := map[string]string{}
	for i := range 8 {
		most[fmt.Sprint("V", i)] = strings.Repeat("x", spec.MaxArgBytes-3)
	}
	if err := (&spec.Spec{Env: most}).Validate(); err != nil {
		t.Errorf("1 MiB of env: %v", err)
	}
	tests := []struct {
		name string
		spec spec.Spec
		want error
	}{
		{"too much env in all", spec.Spec{Env: most, Secrets: map[string]string{"S": ""}}, spec.ErrTooLarge},
		{"too large a secret", spec.Spec{Secrets: map[string]string{"S": strings.Repeat("x", spec.MaxArgBytes-1)}}, spec.ErrTooLarge},
		{"key", spec.Spec{Key: "a/b"}, spec.ErrInvalid},
		{"env", spec.Spec{Env: map[string]string{"A=B": ""}}, spec.ErrInvalid},
		{"relative workdir", spec.Spec{Workdir: "w"}, spec.ErrInvalidPath},
		{"workdir with NUL", spec.Spec{Workdir: "/w\x00"}, spec.ErrInvalidPath},
		{"workdir under /proc", spec.Spec{Workdir: "/proc/self/cwd"}, spec.ErrInvalidPath},
		{"workdir /proc", spec.Spec{Workdir: "/proc"}, spec.ErrInvalidPath},
		{"workdir that cleans to /proc", spec.Spec{Workdir: "/x/..//proc/1"}, spec.ErrInvalidPath},
		{"relative root", spec.Spec{WritableRoots: []string{"/a", "b"}}, spec.ErrInvalidPath},
		{"empty root", spec.Spec{WritableRoots: []string{""}}, spec.ErrInvalidPath},
		{"relative hidden path", spec.Spec{HiddenPaths: []string{"~/.ssh"}}, spec.ErrInvalidPath},
		{"isolation", spec.Spec{Isolation: "fortress"}, spec.ErrInvalid},
		{"network", spec.Spec{Network: "wormhole"}, spec.ErrInvalid},
		{"memory", spec.Spec{Limits: spec.Limits{MemoryBytes: -1}}, spec.ErrInvalid},
		{"cpu", spec.Spec{Limits: spec.Limits{CPUMillis: -1}}, spec.ErrInvalid},
		{"cpu that would overflow", spec.Spec{Limits: spec.Limits{CPUMillis: 1 << 60}}, spec.ErrInvalid},
		{"pids", spec.Spec{Limits: spec.Limits{PIDs: -1}}, spec.ErrInvalid},
		{"capability", spec.Spec{Hardening: spec.Hardening{DropCaps: []string{"NET RAW"}}}, spec.ErrInvalid},
		{"idle timeout", spec.Spec{IdleTimeout: -1}, spec.ErrInvalid},
		{"ttl", spec.Spec{TTL: -1}, spec.ErrInvalid},
	}
	for _, tt := range tests {
		err := tt.spec.Validate()
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		fit(t, err)
	}
}

// What a container can be asked for is checked where it can be without an engine: its
// error names what is wrong and shows no secret.
func TestContainerValidate(t *testing.T) {
	mounts := func(m ...spec.Mount) spec.Spec { return spec.Spec{Mounts: m} }
	ports := func(p ...spec.PublishedPort) spec.Spec {
		return spec.Spec{Network: spec.NetworkOpen, Ports: p}
	}
	mode := func(m string) spec.Spec { return spec.Spec{Network: spec.NetworkOpen, NetworkMode: m} }
	hardening := func(h spec.Hardening) spec.Spec { return spec.Spec{Hardening: h} }
	many := map[string]string{}
	for i := range 300 {
		many[fmt.Sprint("l", i)] = ""
	}
	for _, tt := range []struct {
		name string
		spec spec.Spec
		want error // nil: it is fine
	}{
		{"mounts", mounts(spec.Mount{Source: "/a", Target: "/a"}, spec.Mount{Source: "/a", Target: "/b", ReadOnly: true}, spec.Mount{Source: "/a", Target: "/c", Shared: true}), nil},
		{"relative source", mounts(spec.Mount{Source: "a", Target: "/a"}), spec.ErrInvalidPath},
		{"relative target", mounts(spec.Mount{Source: "/a", Target: "a"}), spec.ErrInvalidPath},
		{"no source", mounts(spec.Mount{Target: "/a"}), spec.ErrInvalidPath},
		{"NUL in a source", mounts(spec.Mount{Source: "/a\x00", Target: "/a"}), spec.ErrInvalidPath},
		{"mount over all", mounts(spec.Mount{Source: "/a", Target: "/x/.."}), spec.ErrInvalidPath},
		{"mount over /proc", mounts(spec.Mount{Source: "/a", Target: "/proc"}), spec.ErrInvalidPath},
		{"mount in /proc", mounts(spec.Mount{Source: "/a", Target: "/x/../proc/sys"}), spec.ErrInvalidPath},
		{"shared and read-only", mounts(spec.Mount{Source: "/a", Target: "/a", Shared: true, ReadOnly: true}), spec.ErrInvalid},
		{"one target twice", mounts(spec.Mount{Source: "/a", Target: "/a"}, spec.Mount{Source: "/b", Target: "/a/"}), spec.ErrInvalid},
		{"many mounts", mounts(make([]spec.Mount, 65)...), spec.ErrInvalid},

		{"ports", ports(spec.PublishedPort{Container: 80}, spec.PublishedPort{Container: 80, Protocol: spec.UDP}, spec.PublishedPort{Container: 65535, Host: 65535, Address: "::"}), nil},
		{"port 0", ports(spec.PublishedPort{}), spec.ErrInvalid},
		{"port 65536", ports(spec.PublishedPort{Container: 65536}), spec.ErrInvalid},
		{"host port -1", ports(spec.PublishedPort{Container: 80, Host: -1}), spec.ErrInvalid},
		{"protocol", ports(spec.PublishedPort{Container: 80, Protocol: "sctp"}), spec.ErrInvalid},
		{"address", ports(spec.PublishedPort{Container: 80, Address: "localhost"}), spec.ErrInvalid},
		{"zone", ports(spec.PublishedPort{Container: 80, Address: "fe80::1%lo"}), spec.ErrInvalid},
		{"one port twice", ports(spec.PublishedPort{Container: 80}, spec.PublishedPort{Container: 80}), spec.ErrInvalid},
		{"a port without a network", spec.Spec{Network: spec.NetworkNone, Ports: []spec.PublishedPort{{Container: 80}}}, spec.ErrInvalid},
		{"many ports", ports(make([]spec.PublishedPort, 257)...), spec.ErrInvalid},

		{"host", mode("host"), nil},
		{"a container", mode("container:web_1.x"), nil},
		{"a named network", mode("blue-net"), nil},
		{"a mode without network open", spec.Spec{NetworkMode: "host"}, spec.ErrInvalid},
		{"mode none", mode("none"), spec.ErrInvalid},
		{"no container", mode("container:"), spec.ErrInvalid},
		{"two containers", mode("container:a:b"), spec.ErrInvalid},
		{"another mode", mode("ns:/proc/1/ns/net"), spec.ErrInvalid},
		{"a path", mode("../x"), spec.ErrInvalid},
		{"an escape", mode("a\x1b[2J"), spec.ErrInvalid},
		{"a port of the machine", spec.Spec{Network: spec.NetworkOpen, NetworkMode: "host", Ports: []spec.PublishedPort{{Container: 80}}}, spec.ErrInvalid},
		{"a port of another container", spec.Spec{Network: spec.NetworkOpen, NetworkMode: "container:a", Ports: []spec.PublishedPort{{Container: 80}}}, spec.ErrInvalid},

		{"labels", spec.Spec{Labels: map[string]string{"team": "blue", "a.b/c": ""}}, nil},
		{"no name", spec.Spec{Labels: map[string]string{"": "x"}}, spec.ErrInvalid},
		{"our label", spec.Spec{Labels: map[string]string{"dev.berth.owner": "x"}}, spec.ErrInvalid},
		{"a NUL in a label", spec.Spec{Labels: map[string]string{"a": "\x00"}}, spec.ErrInvalid},
		{"a long label", spec.Spec{Labels: map[string]string{"a": strings.Repeat("x", 4096)}}, spec.ErrInvalid},
		{"many labels", spec.Spec{Labels: many}, spec.ErrInvalid},

		{"a secret", spec.Spec{Secrets: map[string]string{"TOKEN": "hunter2"}}, nil},
		{"a secret that is plain too", spec.Spec{Env: map[string]string{"TOKEN": "x"}, Secrets: map[string]string{"TOKEN": "hunter2"}}, spec.ErrInvalid},
		{"a secret without a name", spec.Spec{Secrets: map[string]string{"A B": "hunter2"}}, spec.ErrInvalid},
		{"a NUL in a secret", spec.Spec{Secrets: map[string]string{"A": "hunter2\x00"}}, spec.ErrInvalid},

		{"a profile", hardening(spec.Hardening{Seccomp: ` { "defaultAction" : "SCMP_ACT_ALLOW" } `}), nil},
		{"the name of a profile", hardening(spec.Hardening{Seccomp: "/etc/seccomp.json"}), spec.ErrInvalid},
		{"unconfined", hardening(spec.Hardening{Seccomp: "unconfined"}), spec.ErrInvalid},
		{"a profile that says nothing", hardening(spec.Hardening{Seccomp: "{}"}), spec.ErrInvalid},
		{"half a profile", hardening(spec.Hardening{Seccomp: `{"defaultAction":"SCMP_ACT_ALLOW"`}), spec.ErrInvalid},
		{"a huge profile", hardening(spec.Hardening{Seccomp: strings.Repeat(" ", 1<<20) + `{"defaultAction":"x"}`}), spec.ErrTooLarge},
		{"a runtime", hardening(spec.Hardening{Runtime: "io.containerd.runsc.v1"}), nil},
		{"the path of a runtime", hardening(spec.Hardening{Runtime: "/usr/bin/runsc"}), spec.ErrInvalid},

		{"all GPUs", spec.Spec{Limits: spec.Limits{GPUs: -1}}, nil},
		{"fewer than all", spec.Spec{Limits: spec.Limits{GPUs: -2}}, spec.ErrInvalid},
		{"disk", spec.Spec{Limits: spec.Limits{DiskBytes: -1}}, spec.ErrInvalid},

		{"a build", spec.Spec{Build: &spec.Build{Context: "/c", Dockerfile: "/c/D", Args: map[string]string{"A": "1"}}}, nil},
		{"an image and a build", spec.Spec{Image: "i", Build: &spec.Build{Context: "/c"}}, spec.ErrInvalid},
		{"a relative context", spec.Spec{Build: &spec.Build{Context: "c"}}, spec.ErrInvalidPath},
		{"a relative dockerfile", spec.Spec{Build: &spec.Build{Context: "/c", Dockerfile: "D"}}, spec.ErrInvalidPath},
		{"a build argument", spec.Spec{Build: &spec.Build{Context: "/c", Args: map[string]string{"A B": ""}}}, spec.ErrInvalid},
	} {
		err := tt.spec.Validate()
		if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v shows a secret", tt.name, err)
		}
		fit(t, err)
	}
}

// A credential whose name would decide what runs, or where it connects, is refused: in
// both cases, where a variable has two. An ordinary variable may be called so.
func TestReservedSecrets(t *testing.T) {
	for _, name := range []string{
		"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "IFS",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	} {
		err := (&spec.Spec{Secrets: map[string]string{name: "hunter2"}}).Validate()
		if !spec.ReservedSecret(name) || !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want it refused by its name", name, err)
		}
		if err := (&spec.Spec{Env: map[string]string{name: "x"}}).Validate(); err != nil {
			t.Errorf("%s as an ordinary variable: %v", name, err)
		}
	}
	if spec.ReservedSecret("TOKEN") || spec.ReservedSecret("path") {
		t.Error("other names are refused")
	}
}

// A command that cannot be meant is refused before anything is sent.
func TestCommandValidate(t *testing.T) {
	wide := make([]string, 20)
	for i := range wide {
		wide[i] = strings.Repeat("x", 100_000)
	}
	tests := []struct {
		name string
		cmd  spec.Command
		want error
	}{
		{"plain", spec.Command{Args: []string{"true"}}, nil},
		{"empty argument", spec.Command{Args: []string{"echo", ""}}, nil},
		{"any bytes", spec.Command{Args: []string{"echo", "\xff\n"}, Dir: "\xff", Timeout: time.Hour}, nil},
		{"the longest argument", spec.Command{Args: []string{"echo", strings.Repeat("x", spec.MaxArgBytes)}}, nil},
		{"nothing", spec.Command{}, spec.ErrInvalid},
		{"no program", spec.Command{Args: []string{"", "x"}}, spec.ErrInvalid},
		{"NUL", spec.Command{Args: []string{"echo", "a\x00"}}, spec.ErrInvalid},
		{"an argument too long", spec.Command{Args: []string{"echo", strings.Repeat("x", spec.MaxArgBytes+1)}}, spec.ErrTooLarge},
		{"too many arguments", spec.Command{Args: make1(spec.MaxArgs + 1)}, spec.ErrTooLarge},
		{"too much in all", spec.Command{Args: wide}, spec.ErrTooLarge},
		{"a bad name", spec.Command{Args: []string{"true"}, Env: map[string]string{"A B": ""}}, spec.ErrInvalid},
		{"a bad directory", spec.Command{Args: []string{"true"}, Dir: "\x00"}, spec.ErrInvalidPath},
		{"a negative timeout", spec.Command{Args: []string{"true"}, Timeout: -1}, spec.ErrInvalid},
		{"a timeout of centuries", spec.Command{Args: []string{"true"}, Timeout: 1<<63 - 1}, spec.ErrInvalid},
		{"a key too long", spec.Command{Args: []string{"true"}, Key: strings.Repeat("k", 129)}, spec.ErrInvalid},
	}
	for _, tt := range tests {
		err := tt.cmd.Validate()
		if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		fit(t, err)
	}
}

// make1 returns n arguments of one byte.
func make1(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "x"
	}
	return out
}

// A refused command never shows its arguments or its environment: they may hold
// secrets.
func TestCommandErrorsHoldNoSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []spec.Command{
		{Args: []string{"login", secret + "\x00"}},
		{Args: []string{"login", secret + strings.Repeat("x", spec.MaxArgBytes)}},
		{Args: []string{"login"}, Env: map[string]string{"TOKEN": secret + "\x00"}},
		{Args: []string{"login"}, Env: map[string]string{"TOKEN": secret + strings.Repeat("x", spec.MaxArgBytes)}},
	} {
		if err := c.Validate(); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
}
