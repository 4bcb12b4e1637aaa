package config

import (
	"slices"
	"strings"
)

// Setting is one thing that can be set: a row of the table.
type Setting struct {
	// Key is the setting's name and its key in the file; dots separate tables.
	Key string
	// Env is the variable, Flag the long flag; "" where there is none.
	Env, Flag string
	// Default is what holds where no source sets it; Help says what it means in
	// one line, and Meta names the value in a usage line.
	Default, Help, Meta string
	// FlagHelp is Help for the flag, where that takes another form. "": Help.
	FlagHelp string
	// List: it holds several values: an array in the file, separated by ':' in
	// the variable (',' for what are no paths), a repeated flag.
	List bool

	noFile    bool // no key of the file
	path      bool
	adds      bool // sources add up instead of replacing one another
	number    bool // an integer in the file
	boolean   bool // a boolean in the file
	secret    bool // its value is not shown
	separator string
	base      string // a directory under this variable's, or under this one in the home
	under     string
	parse     func(c *Config, texts []string) error
	parseFlag func(c *Config, texts []string) error // nil: parse
}

// settings is the table. BERTH_CONFIG stands in it for its documentation; what it
// says is needed before the others.
var settings = []Setting{
	{Key: "config", Env: "BERTH_CONFIG", Flag: "config", Meta: "FILE", Help: "configuration file", noFile: true, path: true, parse: ignore},
	{Key: "backend", Env: "BERTH_BACKEND", Flag: "backend", Default: "process", Meta: "NAME", Help: "where the sandbox lives", parse: func(c *Config, v []string) error { return name(&c.Backend, v) }},
	{Key: "owner", Env: "BERTH_OWNER", Flag: "owner", Default: "default", Meta: "NAME", Help: "whose sandboxes these are; others are neither seen nor touched", parse: func(c *Config, v []string) error { return key(&c.Owner, v) }},
	{Key: "state_dir", Env: "BERTH_STATE_DIR", Meta: "DIR", Help: "where running sandboxes are recorded (default: berth under XDG_STATE_HOME)", path: true, base: "XDG_STATE_HOME", under: ".local/state", parse: func(c *Config, v []string) error { return text(&c.StateDir, v) }},
	{Key: "cache_dir", Env: "BERTH_CACHE_DIR", Meta: "DIR", Help: "where built guest binaries are kept (default: berth under XDG_CACHE_HOME)", path: true, base: "XDG_CACHE_HOME", under: ".cache", parse: func(c *Config, v []string) error { return text(&c.CacheDir, v) }},
	{Key: "data_dir", Env: "BERTH_DATA_DIR", Meta: "DIR", Help: "where work trees of sessions and what is known of them are kept (default: berth under XDG_DATA_HOME)", path: true, base: "XDG_DATA_HOME", under: ".local/share", parse: func(c *Config, v []string) error { return text(&c.DataDir, v) }},
	{Key: "guest", Env: "BERTH_GUEST", Meta: "FILE", Help: "guest binary to put into sandboxes", path: true, parse: func(c *Config, v []string) error { return text(&c.Guest, v) }},
	{Key: "isolation", Env: "BERTH_ISOLATION", Flag: "isolation", Meta: "LEVEL", Help: "wall around the sandbox: none, guard, jail, standard or strict (default: the backend's)", parse: isolation},
	{Key: "network", Env: "BERTH_NETWORK", Flag: "network", Meta: "POLICY", Help: "what commands may reach: none, limited or open (default: none where there is a wall)", parse: network},
	{Key: "timeout", Env: "BERTH_TIMEOUT", Flag: "timeout", Default: DefaultTimeout.String(), Meta: "DURATION", Help: "end the command after this time, at most 1h; 0: no limit", parse: timeout},
	{Key: "no_output_timeout", Env: "BERTH_NO_OUTPUT_TIMEOUT", Flag: "no-output-timeout", Default: "0s", Meta: "DURATION", Help: "end the command once it has written nothing for this time; 0: no limit", parse: noOutputTimeout},
	{Key: "shell", Env: "BERTH_SHELL", Default: "/bin/sh", Meta: "PROGRAM", Help: "shell of the sandbox that --shell means; it knows -c", parse: func(c *Config, v []string) error { return text(&c.Shell, v) }},
	{Key: "job_owner", Env: "BERTH_JOB_OWNER", Flag: "job-owner", Meta: "NAME", Help: "whose jobs are meant in the sandbox; those of others are as unknown as none (default: the owner without a name)", parse: jobOwner},
	{Key: "audit", Env: "BERTH_AUDIT", Default: "true", Meta: "BOOL", Help: "record what is done to sandboxes with a key, for \"berth audit\": true or false", boolean: true, parse: func(c *Config, v []string) error { return boolean(&c.Audit, v) }},
	{Key: "secrets", Env: "BERTH_SECRETS", Flag: "secret", Meta: "NAME", Help: "variable, ours or of --env, that holds a secret: its value is in no record and no listing; repeatable", List: true, adds: true, separator: ",", parse: secrets, parseFlag: namedSecrets},
	{Key: "writable", Env: "BERTH_WRITABLE", Flag: "writable", Meta: "DIR", Help: "directory that commands may write under guard and jail, beside the workdir; repeatable", List: true, path: true, separator: ":", parse: func(c *Config, v []string) error { c.Writable = slices.Clone(v); return nil }},
	{Key: "hide", Env: "BERTH_HIDE", Flag: "hide", Meta: "PATH", Help: "path that guard hides beside the credentials that it hides anyway; repeatable", List: true, path: true, adds: true, separator: ":", parse: func(c *Config, v []string) error { c.Hidden = append(c.Hidden, v...); return nil }},
	{Key: "image", Env: "BERTH_IMAGE", Flag: "image", Meta: "IMAGE", Help: "container image of the sandbox", parse: func(c *Config, v []string) error { return text(&c.Image, v) }},
	{Key: "mounts", Env: "BERTH_MOUNTS", Flag: "mount", Meta: "SRC:DST", Help: "file or directory of the engine's machine that a container has at DST; SRC:DST:ro cannot be written, SRC:DST:shared is relabelled for SELinux; repeatable", List: true, path: true, separator: ",", parse: mounts},
	{Key: "publish", Env: "BERTH_PUBLISH", Flag: "publish", Meta: "PORT", Help: "port of a container to publish on the engine's machine: [[ADDRESS:]HOST:]PORT[/udp]; needs network open; repeatable (default: ADDRESS 127.0.0.1, HOST a free one)", List: true, separator: ",", parse: ports},
	{Key: "network_mode", Env: "BERTH_NETWORK_MODE", Flag: "network-mode", Meta: "MODE", Help: "open network that a container is in: host, container:ID, or the name of one that the engine has (default: the engine's)", parse: networkMode},
	{Key: "labels", Env: "BERTH_LABELS", Flag: "label", Meta: "NAME=VALUE", Help: "label of a container; repeatable", List: true, separator: ",", parse: labels},

	{Key: "sandbox.pids", Env: "SANDBOX_PIDS", Flag: "pids", Meta: "N", Help: "most processes of a container at once; 0: no limit (default: 512)", FlagHelp: "most processes of the sandbox at once; 0: no limit (default: none on this machine, 512 in a container)", number: true, parse: pids},
	{Key: "sandbox.cpu_millis", Env: "SANDBOX_CPU_MILLIS", Flag: "cpus", Meta: "N", Help: "CPU time of a container, in thousandths of a CPU; --cpus counts in CPUs, 1.5 say; 0: no limit (default: 2 CPUs)", FlagHelp: "most CPUs that the sandbox uses, 0.5 or 2 say; 0: no limit (default: none on this machine, 2 in a container)", number: true, parse: cpuMillis, parseFlag: cpus},
	{Key: "sandbox.memory_bytes", Env: "SANDBOX_MEMORY_BYTES", Flag: "memory", Meta: "SIZE", Help: "most memory of a container in bytes; --memory takes 512m or 2g too; 0: no limit (default)", FlagHelp: "most memory of the sandbox: 512m, 2g, or bytes; 0: no limit (default)", number: true, parse: memoryBytes, parseFlag: memory},
	{Key: "sandbox.cap_drop", Env: "SANDBOX_CAP_DROP", Flag: "cap-drop", Meta: "NAME", Help: "capability that a container loses, ALL for every one, none for none; repeatable (default: NET_RAW, SETGID, SETUID)", List: true, separator: ",", parse: capDrop},
	{Key: "sandbox.read_only_root", Env: "SANDBOX_READ_ONLY_ROOT", Flag: "read-only-root", Meta: "BOOL", Help: "mount a container's root file system read-only: true or false (default: false)", boolean: true, parse: readOnlyRoot},
	{Key: "sandbox.user", Env: "SANDBOX_USER", Flag: "sandbox-user", Meta: "UID[:GID]", Help: "numeric user of a container instead of the image's", number: true, parse: user},

	{Key: "sandbox.no_new_privileges", Env: "SANDBOX_NO_NEW_PRIVILEGES", Flag: "no-new-privileges", Meta: "BOOL", Help: "keep a container's programs from gaining privileges: true or false (default: true where a capability is dropped)", boolean: true, parse: func(c *Config, v []string) error { return boolean(&c.Sandbox.NoNewPrivileges, v) }},
	{Key: "sandbox.seccomp", Env: "SANDBOX_SECCOMP", Flag: "seccomp", Meta: "FILE", Help: "seccomp profile of a container, JSON, instead of the engine's", path: true, parse: seccomp},
	{Key: "sandbox.runtime", Env: "SANDBOX_RUNTIME", Flag: "runtime", Meta: "NAME", Help: "runtime that the engine runs a container with: runc, crun or runsc, say (default: the engine's)", parse: func(c *Config, v []string) error { return text(&c.Sandbox.Runtime, v) }},
	{Key: "sandbox.disk_bytes", Env: "SANDBOX_DISK_BYTES", Flag: "disk", Meta: "SIZE", Help: "most that a container writes into its own layer, in bytes, where the engine's storage can enforce that; --disk takes 512m or 2g too; 0: no limit (default)", number: true, parse: diskBytes, parseFlag: disk},
	{Key: "sandbox.gpus", Env: "SANDBOX_GPUS", Flag: "gpus", Meta: "N", Help: "GPUs that a container gets, or all; 0: none (default)", number: true, parse: gpus},

	{Key: "docker.host", Env: "DOCKER_HOST", Meta: "URL", Help: "the Docker engine: unix:///path, tcp://host:port or ssh://user@host", parse: func(c *Config, v []string) error { return engineHost(&c.Docker.Host, v) }},
	{Key: "docker.context", Env: "DOCKER_CONTEXT", Meta: "NAME", Help: "context of Docker's command line that names the engine (default: its current one)", parse: func(c *Config, v []string) error { return text(&c.Docker.Context, v) }},
	{Key: "docker.config", Env: "DOCKER_CONFIG", Meta: "DIR", Help: "where Docker's command line keeps its configuration (default: .docker in the home)", path: true, parse: func(c *Config, v []string) error { return text(&c.Docker.ConfigDir, v) }},
	{Key: "docker.tls_verify", Env: "DOCKER_TLS_VERIFY", Meta: "ANY", Help: "if set and not empty, a tcp:// engine is spoken to by TLS and proves who it is", parse: func(c *Config, _ []string) error { c.Docker.TLS = true; return nil }},
	{Key: "docker.cert_path", Env: "DOCKER_CERT_PATH", Meta: "DIR", Help: "where ca.pem, cert.pem and key.pem for that are (default: docker.config)", path: true, parse: func(c *Config, v []string) error { return text(&c.Docker.TLSDir, v) }},
	{Key: "docker.buildkit", Env: "DOCKER_BUILDKIT", Meta: "BOOL", Help: "build images with BuildKit: true or false, 1 or 0 in the variable (default: where the Docker engine has it)", boolean: true, parse: buildKit},
	{Key: "podman.host", Env: "CONTAINER_HOST", Meta: "URL", Help: "Podman's service: unix:///path, tcp://host:port or ssh://user@host (default: root's, else this user's own)", parse: func(c *Config, v []string) error { return engineHost(&c.PodmanHost, v) }},
	{Key: "podman.start", Env: "BERTH_PODMAN_START", Default: "true", Meta: "BOOL", Help: "where no service of Podman answers, the podman backend starts one that ends by itself (podman system service), if it is the backend in use: true or false", boolean: true, parse: func(c *Config, v []string) error { return boolean(&c.PodmanStart, v) }},

	{Key: "git.token", Env: "BERTH_GIT_TOKEN", Meta: "TOKEN", Help: "secret for clones by https, given to the host of the URL alone and never to a sandbox (default, for github.com: GH_TOKEN, GITHUB_TOKEN, or what gh auth token says)", secret: true, parse: func(c *Config, v []string) error { return text(&c.gitToken, v) }},

	{Key: "ssh.addr", Env: "BERTH_SSH_ADDR", Meta: "HOST[:PORT]", Help: "host of the ssh backend", parse: func(c *Config, v []string) error { return text(&c.SSH.Addr, v) }},
	{Key: "ssh.user", Env: "BERTH_SSH_USER", Meta: "NAME", Help: "user on that host (default: ours)", parse: func(c *Config, v []string) error { return text(&c.SSH.User, v) }},
	{Key: "ssh.key", Env: "BERTH_SSH_KEY", Meta: "FILE", Help: "private key for that host", path: true, parse: func(c *Config, v []string) error { return text(&c.SSH.Key, v) }},
	{Key: "ssh.agent", Env: "SSH_AUTH_SOCK", Meta: "SOCKET", Help: "ssh-agent whose keys are tried last", path: true, parse: func(c *Config, v []string) error { return text(&c.SSH.Agent, v) }},
	{Key: "ssh.known_hosts", Env: "BERTH_SSH_KNOWN_HOSTS", Meta: "FILE", Help: "known_hosts file that has that host's key", path: true, parse: func(c *Config, v []string) error { return text(&c.SSH.KnownHosts, v) }},
	{Key: "ssh.dir", Env: "BERTH_SSH_DIR", Meta: "DIR", Help: "directory on that host where sandboxes are kept", parse: func(c *Config, v []string) error { return text(&c.SSH.Dir, v) }},

	{Key: "no_color", Env: "NO_COLOR", Meta: "ANY", Help: "if set and not empty, no colour on the terminal", noFile: true, parse: ignore},
}

// Settings returns the table.
func Settings() []Setting { return slices.Clone(settings) }

// Lookup returns the row of a key.
func Lookup(key string) (Setting, bool) {
	for _, s := range settings {
		if s.Key == key {
			return s, true
		}
	}
	return Setting{}, false
}

// list splits the text of a variable or a default.
func (s *Setting) list(text string) []string {
	if text == "" {
		return nil
	}
	if !s.List {
		return []string{text}
	}
	return strings.Split(text, s.separator)
}

// hint says where the setting can be put right.
func (s *Setting) hint() string {
	var ways []string
	if s.Flag != "" {
		ways = append(ways, "--"+s.Flag+" "+s.Meta)
	}
	if s.Env != "" {
		ways = append(ways, s.Env+"="+s.Meta)
	}
	if !s.noFile {
		ways = append(ways, s.Key+" in the configuration file")
	}
	return s.Help + " (" + strings.Join(ways, ", ") + ")"
}

// unknownVariables are the BERTH_ names that no setting has. BERTH_TEST_ belongs
// to the project's tests.
func unknownVariables(environ map[string]string) []string {
	var out []string
	for name := range environ {
		known := slices.ContainsFunc(settings, func(s Setting) bool { return s.Env == name })
		if strings.HasPrefix(name, "BERTH_") && !strings.HasPrefix(name, "BERTH_TEST_") && !known {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
