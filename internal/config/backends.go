package config

import (
	"path/filepath"
	"runtime"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/guest"
)

// GuestBinary says where the berth program looks for a guest binary.
func (c *Config) GuestBinary() guest.BinaryOptions {
	return guest.BinaryOptions{Path: c.Guest, CacheDir: c.CacheDir}
}

// Backends returns the options of every backend. They are those of a program that
// calls selfexec.Main.
func (c *Config) Backends() all.Options {
	bin := c.GuestBinary()
	own := bin
	own.AllowSelf = runtime.GOOS == "linux"
	limits, hardening := c.Containers()
	engine := c.dockerEngine()
	return all.Options{
		Process: process.Options{Owner: c.Owner, StateDir: c.StateDir, Guest: own, HiddenPaths: c.secrets()},
		Docker: docker.Options{
			Owner: c.Owner, StateDir: c.StateDir, Guest: bin, Limits: &limits, Hardening: &hardening,
			Host: engine.Host, Context: engine.Context, ConfigDir: engine.ConfigDir, Sockets: c.dockerSockets(), TLS: engine.TLS, TLSDir: engine.TLSDir, BuildKit: engine.BuildKit,
		},
		Podman: podman.Options{
			Owner: c.Owner, StateDir: c.StateDir, Guest: bin, Limits: &limits, Hardening: &hardening,
			Host: c.PodmanHost, Sockets: c.runtimeSocket("podman", "podman.sock"), ConfigDir: engine.ConfigDir,
			Service: c.podmanService(),
		},
		SSH: ssh.Options{
			Owner: c.Owner, Guest: bin, Addr: c.SSH.Addr, User: c.SSH.User, RemoteDir: c.SSH.Dir,
			KeyFiles: list(c.SSH.Key), KnownHostsFiles: list(c.SSH.KnownHosts), AgentSocket: c.SSH.Agent,
		},
	}
}

// dockerEngine says which Docker engine is meant: a context that the environment names
// goes before a host that stands in the file.
func (c *Config) dockerEngine() Docker {
	d := c.Docker
	if d.ConfigDir == "" && filepath.IsAbs(c.environ["HOME"]) {
		d.ConfigDir = filepath.Join(c.environ["HOME"], ".docker")
	}
	if c.environ["DOCKER_HOST"] == "" && c.environ["DOCKER_CONTEXT"] != "" {
		d.Host = ""
	}
	return d
}

// dockerSockets are where engines without root listen.
func (c *Config) dockerSockets() []string {
	out := c.runtimeSocket("docker.sock")
	if home := c.environ["HOME"]; filepath.IsAbs(home) {
		out = append(out, filepath.Join(home, ".docker", "run", "docker.sock"))
	}
	return out
}

// podmanService says how a service is started: by those who use the backend, and not by
// those who look at all of them.
func (c *Config) podmanService() *podman.Service {
	if !c.PodmanStart {
		return nil
	}
	dir := c.StateDir
	if runtime := c.environ["XDG_RUNTIME_DIR"]; filepath.IsAbs(runtime) {
		dir = filepath.Join(runtime, "berth")
	}
	return &podman.Service{Dir: filepath.Join(dir, "podman"), LookOnly: c.Backend != "podman"}
}

// runtimeSocket is a socket in the directory of this user's session, if there is one.
func (c *Config) runtimeSocket(name ...string) []string {
	dir := c.environ["XDG_RUNTIME_DIR"]
	if !filepath.IsAbs(dir) {
		return nil
	}
	return []string{filepath.Join(dir, filepath.Join(name...))}
}

// secrets are the files of our own that guard hides.
func (c *Config) secrets() []string {
	if c.File == "" {
		return nil
	}
	path, err := filepath.Abs(c.File)
	if err != nil { // there is no working directory, so there is no such file
		return nil
	}
	return []string{path}
}

// list is a list of what is set.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
