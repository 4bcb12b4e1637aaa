//go:build unix

package sshtest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Client makes the program ssh, for the rest of the test, one that reads these lines of
// configuration and no file of the user's.
func Client(tb testing.TB, config ...string) {
	tb.Helper()
	program, err := exec.LookPath("ssh")
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	file := filepath.Join(dir, "config")
	for name, text := range map[string]string{
		file:                      strings.Join(config, "\n") + "\n",
		filepath.Join(dir, "ssh"): "#!/bin/sh\nexec " + program + " -F " + file + " \"$@\"\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil { // #nosec G306 -- a program
			tb.Fatal(err)
		}
	}
	tb.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// Alias returns the lines with which a client reaches s as the host alias, for want of a
// key only.
func (s *Server) Alias(alias string) []string {
	host, port, _ := net.SplitHostPort(s.Addr)
	return []string{
		"Host " + alias, "HostName " + host, "Port " + port, "User " + s.User, "IdentitiesOnly yes",
		"UserKnownHostsFile " + s.KnownHosts, "StrictHostKeyChecking yes",
	}
}
