package config

import (
	"path/filepath"
	"runtime"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/backend/docker"
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
	return all.Options{
		Process: process.Options{Owner: c.Owner, StateDir: c.StateDir, Guest: own, HiddenPaths: c.secrets()},
		Docker:  docker.Options{Owner: c.Owner, Host: c.DockerHost, Guest: bin, Limits: &limits, Hardening: &hardening},
		SSH: ssh.Options{
			Owner: c.Owner, Guest: bin, Addr: c.SSH.Addr, User: c.SSH.User, RemoteDir: c.SSH.Dir,
			KeyFiles: list(c.SSH.Key), KnownHostsFiles: list(c.SSH.KnownHosts), AgentSocket: c.SSH.Agent,
		},
	}
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
