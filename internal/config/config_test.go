package config

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

const testFile = "/home/me/.config/berth/config.toml"

// sources gives Load an environment and, if file is not empty, a file in its
// default place.
func sources(file string, flags map[string][]string, environ ...string) Sources {
	return Sources{
		Flags:   flags,
		Environ: append([]string{"HOME=/home/me"}, environ...),
		ReadFile: func(name string) ([]byte, error) {
			if name != testFile || file == "" {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(file), nil
		},
	}
}

// load resolves and fails the test on an error.
func load(t *testing.T, s Sources) *Config {
	t.Helper()
	c, err := Load(s)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// "Flags over environment over file over defaults."
func TestPrecedence(t *testing.T) {
	file := "backend = 'ssh'\n"
	flags := map[string][]string{"backend": {"docker"}}
	for _, test := range []struct {
		name         string
		s            Sources
		want, source string
	}{
		{"default", sources("", nil), "process", "default"},
		{"file", sources(file, nil), "ssh", testFile + ":1"},
		{"environment", sources(file, nil, "BERTH_BACKEND=fake"), "fake", "BERTH_BACKEND"},
		{"empty environment", sources(file, nil, "BERTH_BACKEND="), "ssh", testFile + ":1"},
		{"flag", sources(file, flags, "BERTH_BACKEND=fake"), "docker", "flag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := load(t, test.s)
			if c.Backend != test.want {
				t.Errorf("Backend = %q, want %q", c.Backend, test.want)
			}
			for _, v := range c.Values {
				if v.Key == "backend" && (v.Source != test.source || v.Text != test.want) {
					t.Errorf("value %q from %q, want %q from %q", v.Text, v.Source, test.want, test.source)
				}
			}
		})
	}
}

// Every setting can be given in the file, with the type that it has.
func TestWholeFile(t *testing.T) {
	c := load(t, sources(`
backend = "docker"
owner = "me"
state_dir = "/s"
cache_dir = "~/c"
guest = "/g"
isolation = "strict"
network = "open"
timeout = "90s"
writable = ["/w", "~/w"]
hide = ["/h"]
image = "busybox"
docker.host = "tcp://engine:2375"

[sandbox]
pids = 7
cpu_millis = 1500
memory_bytes = 1048576
cap_drop = ["cap_chown", "ALL"]
read_only_root = true
user = 1000

[ssh]
addr = "far:22"
user = "u"
key = "/k"
agent = "/a"
known_hosts = "/kh"
dir = "d"
`, nil, "BERTH_HIDE=/h2"))
	n := func(n int64) *int64 { return &n }
	want := &Config{
		File: testFile, Backend: "docker", Owner: "me", StateDir: "/s", CacheDir: "/home/me/c", Guest: "/g",
		Isolation: spec.IsolationStrict, Network: spec.NetworkOpen, Timeout: 90 * time.Second,
		Writable: []string{"/w", "/home/me/w"}, Hidden: []string{"/h", "/h2"}, Image: "busybox",
		SSH: SSH{Addr: "far:22", User: "u", Key: "/k", Agent: "/a", KnownHosts: "/kh", Dir: "d"}, DockerHost: "tcp://engine:2375",
		Sandbox: Sandbox{PIDs: n(7), CPUMillis: n(1500), MemoryBytes: n(1 << 20), DropCaps: []string{"ALL"}, ReadOnlyRoot: true, User: "1000"},
		Color:   true,
	}
	got := *c
	got.Values, got.environ, got.given = nil, nil, nil
	if diff := cmp.Diff(want, &got, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if len(c.Values) != len(Settings()) {
		t.Errorf("%d values for %d settings", len(c.Values), len(Settings()))
	}
}

// "Unknown keys and malformed values fail the start and name key, file and line."
func TestRefusals(t *testing.T) {
	flag := func(key, value string) map[string][]string { return map[string][]string{key: {value}} }
	for _, test := range []struct {
		name string
		s    Sources
		want []string // all of them stand in the message
	}{
		{"unknown key", sources("# one\nbackand = 'x'\n", nil), []string{testFile + ":2", "unknown key backand", "backend?"}},
		{"unknown key in a table", sources("[ssh]\n\nhost = 'x'\n", nil), []string{testFile + ":3", "unknown key ssh.host"}},
		{"unknown key in an inline table", sources("\nssh = {addr = 'x', prt = 1}\n", nil), []string{testFile + ":2", "unknown key ssh.prt"}},
		{"a value where a table is", sources("ssh = 'x'\n", nil), []string{testFile + ":1", "unknown key ssh"}},
		{"no key of the file", sources("no_color = 'x'\n", nil), []string{testFile + ":1", "unknown key no_color"}},
		{"not TOML", sources("backend = 'docker'\n= 3\n", nil), []string{testFile + ":2"}},
		{"key given twice", sources("image = 'a'\nimage = 'b'\n", nil), []string{testFile + ":2"}},
		{"wrong type", sources("\n\ntimeout = 30\n", nil), []string{testFile + ":3", "key timeout", "want a string"}},
		{"wrong type in a list", sources("hide = [1]\n", nil), []string{testFile + ":1", "key hide", "array of strings"}},
		{"string for a list", sources("hide = '/x'\n", nil), []string{testFile + ":1", "key hide", "array of strings"}},
		{"string for a boolean", sources("sandbox.read_only_root = 'true'\n", nil), []string{"key sandbox.read_only_root", "true or false"}},
		{"float for an integer", sources("sandbox.pids = 1.5\n", nil), []string{"key sandbox.pids", "an integer"}},
		{"malformed in the file", sources("isolation = 'walls'\n", nil), []string{testFile + ":1", "key isolation", `"walls"`}},
		{"relative path in the file", sources("guest = 'bin/guest'\n", nil), []string{testFile + ":1", "key guest", "not an absolute path"}},
		{"malformed in the environment", sources("", nil, "BERTH_NETWORK=maybe"), []string{"BERTH_NETWORK", `"maybe"`}},
		{"malformed duration", sources("", nil, "BERTH_TIMEOUT=30"), []string{"BERTH_TIMEOUT", "30s"}},
		{"negative duration", sources("", flag("timeout", "-1s")), []string{"--timeout", `"-1s"`}},
		{"duration too long", sources("", flag("timeout", "61m")), []string{"--timeout", "at most 1h"}},
		{"malformed flag", sources("", flag("backend", "No Such")), []string{"--backend", `"No Such"`}},
		{"malformed owner", sources("", nil, "BERTH_OWNER=a/b"), []string{"BERTH_OWNER", `"a/b"`}},
		{"malformed engine", sources("", nil, "DOCKER_HOST=nowhere"), []string{"DOCKER_HOST", `"nowhere"`}},
		{"a named file that is not there", sources("", nil, "BERTH_CONFIG=/none.toml"), []string{`"/none.toml"`, "no such file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load(test.s)
			if err == nil {
				t.Fatal("Load took it")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if spec.HintOf(err) == "" {
				t.Errorf("error %q has no hint", err)
			}
			if code := spec.CodeOf(err); code != spec.CodeInvalid && code != spec.CodeFileNotFound {
				t.Errorf("code %q", code)
			}
		})
	}
}

// A default file that cannot be read is refused: what it says would be ignored.
func TestUnreadableFile(t *testing.T) {
	s := sources("", nil)
	s.ReadFile = func(name string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	_, err := Load(s)
	if !errors.Is(err, spec.ErrPermission) || !strings.Contains(err.Error(), testFile) {
		t.Errorf("error %v, want one that names the file and is ErrPermission", err)
	}
}

// The places that the XDG specification names; a relative base is ignored.
func TestDirectories(t *testing.T) {
	for _, test := range []struct {
		name         string
		environ      []string
		state, cache string
	}{
		{"home", []string{"HOME=/h"}, "/h/.local/state/berth", "/h/.cache/berth"},
		{"base", []string{"HOME=/h", "XDG_STATE_HOME=/x/s", "XDG_CACHE_HOME=/x/c"}, "/x/s/berth", "/x/c/berth"},
		{"relative base", []string{"HOME=/h", "XDG_STATE_HOME=s"}, "/h/.local/state/berth", "/h/.cache/berth"},
		{"ours", []string{"HOME=/h", "BERTH_STATE_DIR=/s"}, "/s", "/h/.cache/berth"},
		{"nowhere", nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := load(t, Sources{Environ: test.environ, ReadFile: sources("", nil).ReadFile})
			if c.StateDir != test.state || c.CacheDir != test.cache {
				t.Errorf("state %q, cache %q, want %q, %q", c.StateDir, c.CacheDir, test.state, test.cache)
			}
		})
	}
}

// A misspelt variable is reported; those of the tests are not.
func TestUnknownVariables(t *testing.T) {
	c := load(t, sources("", nil, "BERTH_NETWROK=none", "BERTH_TEST_SOAK=1", "NO_COLOR=1"))
	if diff := cmp.Diff([]string{"BERTH_NETWROK"}, c.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if c.Color {
		t.Error("colour in spite of NO_COLOR")
	}
	if v, ok := c.Lookup("BERTH_TEST_SOAK"); !ok || v != "1" {
		t.Errorf("Lookup = %q, %v", v, ok)
	}
}

// The table is complete: whoever reads a help text can set what it shows.
func TestTable(t *testing.T) {
	seen := map[string]string{}
	for _, s := range Settings() {
		for _, name := range []string{s.Key, s.Env, "--" + s.Flag} {
			if name == "" || name == "--" {
				continue
			}
			if other, taken := seen[name]; taken && other != s.Key {
				t.Errorf("%s is taken by %s and %s", name, other, s.Key)
			}
			seen[name] = s.Key
		}
		if s.Help == "" || s.Meta == "" || s.parse == nil || s.Env == "" {
			t.Errorf("%s: the row is not complete", s.Key)
		}
		if s.List && s.separator == "" {
			t.Errorf("%s: a list without a separator", s.Key)
		}
	}
}

// No file makes the parser fail in another way than with an error.
func FuzzFile(f *testing.F) {
	f.Add("backend = 'x'\n[ssh]\naddr = 'y'\n")
	f.Add("ssh = {addr = 'x'}\nhide = ['/a', '/b']\n")
	f.Add("[[a.b]]\n'c d'.e = 1979-05-27\n")
	f.Fuzz(func(t *testing.T, file string) {
		c, err := Load(sources(file, nil))
		if (c == nil) == (err == nil) {
			t.Errorf("config %v, error %v", c, err)
		}
	})
}

// Guard hides the configuration file, which may name keys.
func TestConfigFileIsHidden(t *testing.T) {
	got := load(t, sources("backend = 'ssh'\n", nil)).Backends().Process.HiddenPaths
	if diff := cmp.Diff([]string{testFile}, got); diff != "" {
		t.Errorf("hidden (-want +got):\n%s", diff)
	}
	if got := load(t, sources("", nil)).Backends().Process.HiddenPaths; len(got) > 0 {
		t.Errorf("hidden without a file: %q", got)
	}
}
