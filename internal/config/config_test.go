package config

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/backend/podman"
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
no_output_timeout = "45s"
shell = "/bin/bash"
job_owner = "ci"
writable = ["/w", "~/w"]
hide = ["/h"]
image = "busybox"
mounts = ["/a:/b:ro", "~/c:/d"]
publish = ["8080:80"]
network_mode = "blue"
labels = ["team=blue"]
docker.host = "tcp://engine:2375"
podman.host = "ssh://engine"
podman.start = true

[sandbox]
pids = 7
cpu_millis = 1500
memory_bytes = 1048576
cap_drop = ["cap_chown", "ALL"]
read_only_root = true
user = 1000
no_new_privileges = true
runtime = "runsc"
disk_bytes = 1024
gpus = 2

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
		File: testFile, Backend: "docker", Owner: "me", StateDir: "/s", CacheDir: "/home/me/c", DataDir: "/home/me/.local/share/berth", Guest: "/g",
		Isolation: spec.IsolationStrict, Network: spec.NetworkOpen, Timeout: 90 * time.Second,
		NoOutputTimeout: 45 * time.Second, Shell: "/bin/bash", JobOwner: "ci", Audit: true,
		Writable: []string{"/w", "/home/me/w"}, Hidden: []string{"/h", "/h2"}, Image: "busybox",
		SSH: SSH{Addr: "far:22", User: "u", Key: "/k", Agent: "/a", KnownHosts: "/kh", Dir: "d"}, Docker: Docker{Host: "tcp://engine:2375"}, PodmanHost: "ssh://engine", PodmanStart: true,
		Sandbox: Sandbox{PIDs: n(7), CPUMillis: n(1500), MemoryBytes: n(1 << 20), DropCaps: []string{"ALL"}, ReadOnlyRoot: true, User: "1000", NoNewPrivileges: true, Runtime: "runsc", DiskBytes: 1024, GPUs: 2},
		Container: Container{
			Mounts: []spec.Mount{{Source: "/a", Target: "/b", ReadOnly: true}, {Source: "/home/me/c", Target: "/d"}},
			Ports:  []spec.PublishedPort{{Host: 8080, Container: 80}}, NetworkMode: "blue", Labels: map[string]string{"team": "blue"},
		},
		Color: true,
	}
	got := *c
	got.Values, got.environ, got.given, got.readFile = nil, nil, nil, nil
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
		// syntax: the message says it all.
		syntax bool
	}{
		{name: "unknown key", s: sources("# one\nbackand = 'x'\n", nil), want: []string{testFile + ":2", "unknown key backand", "backend?"}},
		{name: "unknown key in a table", s: sources("[ssh]\n\nhost = 'x'\n", nil), want: []string{testFile + ":3", "unknown key ssh.host"}},
		{name: "unknown key in an inline table", s: sources("\nssh = {addr = 'x', prt = 1}\n", nil), want: []string{testFile + ":2", "unknown key ssh.prt"}},
		{name: "a value where a table is", s: sources("ssh = 'x'\n", nil), want: []string{testFile + ":1", "unknown key ssh"}},
		{name: "no key of the file", s: sources("no_color = 'x'\n", nil), want: []string{testFile + ":1", "unknown key no_color"}},
		{name: "not TOML", s: sources("backend = 'docker'\n= 3\n", nil), want: []string{testFile + ":2"}, syntax: true},
		{name: "key given twice", s: sources("image = 'a'\nimage = 'b'\n", nil), want: []string{testFile + ":2"}, syntax: true},
		{name: "wrong type", s: sources("\n\ntimeout = 30\n", nil), want: []string{testFile + ":3", "key timeout", "want a string"}},
		{name: "wrong type in a list", s: sources("hide = [1]\n", nil), want: []string{testFile + ":1", "key hide", "array of strings"}},
		{name: "string for a list", s: sources("hide = '/x'\n", nil), want: []string{testFile + ":1", "key hide", "array of strings"}},
		{name: "no boolean for BuildKit", s: sources("", nil, "DOCKER_BUILDKIT=x"), want: []string{"DOCKER_BUILDKIT", "neither true nor false"}},
		{name: "string for a boolean", s: sources("sandbox.read_only_root = 'true'\n", nil), want: []string{"key sandbox.read_only_root", "true or false"}},
		{name: "float for an integer", s: sources("sandbox.pids = 1.5\n", nil), want: []string{"key sandbox.pids", "an integer"}},
		{name: "malformed in the file", s: sources("isolation = 'walls'\n", nil), want: []string{testFile + ":1", "key isolation", `"walls"`}},
		{name: "relative path in the file", s: sources("guest = 'bin/guest'\n", nil), want: []string{testFile + ":1", "key guest", "not an absolute path"}},
		{name: "malformed in the environment", s: sources("", nil, "BERTH_NETWORK=maybe"), want: []string{"BERTH_NETWORK", `"maybe"`}},
		{name: "malformed duration", s: sources("", nil, "BERTH_TIMEOUT=30"), want: []string{"BERTH_TIMEOUT", "30s"}},
		{name: "negative duration", s: sources("", flag("timeout", "-1s")), want: []string{"--timeout", `"-1s"`}},
		{name: "duration too long", s: sources("", flag("timeout", "61m")), want: []string{"--timeout", "at most 1h"}},
		{name: "malformed flag", s: sources("", flag("backend", "No Such")), want: []string{"--backend", `"No Such"`}},
		{name: "malformed owner", s: sources("", nil, "BERTH_OWNER=a/b"), want: []string{"BERTH_OWNER", `"a/b"`}},
		{name: "malformed engine", s: sources("", nil, "DOCKER_HOST=nowhere"), want: []string{"DOCKER_HOST", `"nowhere"`}},
		{name: "a named file that is not there", s: sources("", nil, "BERTH_CONFIG=/none.toml"), want: []string{`"/none.toml"`, "no such file"}},
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
			if spec.HintOf(err) == "" && !test.syntax {
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

// What is no file is said so; a refusal says permission once.
func TestFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(Sources{Environ: []string{"BERTH_CONFIG=" + dir}, ReadFile: ReadFile})
	if !errors.Is(err, spec.ErrNotRegular) || strings.Count(err.Error(), "not a regular file") != 1 || spec.HintOf(err) == "" {
		t.Errorf("a directory: %v", err)
	}
	s := sources("", nil, "BERTH_CONFIG=/closed")
	s.ReadFile = func(name string) ([]byte, error) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if _, err := Load(s); !errors.Is(err, spec.ErrPermission) || strings.Count(err.Error(), "permission denied") != 1 {
		t.Errorf("a closed file: %v", err)
	}
}

// LoadAll goes on after what is wrong: everything else holds, and what is wrong has its
// default.
func TestLoadAll(t *testing.T) {
	flags := map[string][]string{"network": {"maybe"}, "owner": {"me"}}
	c, wrong := LoadAll(sources("image = 'x'\nisolaton = 'none'\n", flags, "BERTH_ISOLATION=walls", "BERTH_BACKEND=No", "BERTH_TIMEOUT=5s"))
	if len(wrong) != 4 {
		t.Errorf("wrong: %v, want the file, the backend, the isolation and the network", wrong)
	}
	if c.Backend != "process" || c.Isolation != "" || c.Network != "" || c.Image != "" || c.Owner != "me" || c.Timeout != 5*time.Second {
		t.Errorf("config %+v", c)
	}
	if c.File != testFile || len(c.Values) != len(Settings()) {
		t.Errorf("file %q, %d values", c.File, len(c.Values))
	}
	if c, wrong := LoadAll(sources("", nil)); len(wrong) > 0 || c.Backend != "process" {
		t.Errorf("wrong: %v", wrong)
	}
}

// Colour is off where NO_COLOR says something and on a terminal that has none.
func TestColour(t *testing.T) {
	for environ, want := range map[string]bool{"": true, "NO_COLOR=": true, "NO_COLOR=1": false, "NO_COLOR=0": false, "TERM=dumb": false, "TERM=xterm": true} {
		if got := Colour([]string{environ}); got != want {
			t.Errorf("%s: %t", environ, got)
		}
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

// A service of Podman is started for those who use that backend, in a directory of this
// user's session or of the state, and for nobody where that is switched off.
func TestPodmanService(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		want    *podman.Service
	}{
		{nil, &podman.Service{Dir: "/home/me/.local/state/berth/podman", LookOnly: true}},
		{[]string{"BERTH_BACKEND=podman"}, &podman.Service{Dir: "/home/me/.local/state/berth/podman"}},
		{[]string{"BERTH_BACKEND=podman", "XDG_RUNTIME_DIR=/run/user/7"}, &podman.Service{Dir: "/run/user/7/berth/podman"}},
		{[]string{"BERTH_BACKEND=podman", "BERTH_PODMAN_START=false"}, nil},
	} {
		c := load(t, sources("", nil, tt.environ...))
		if diff := cmp.Diff(tt.want, c.Backends().Podman.Service); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.environ, diff)
		}
	}
}
