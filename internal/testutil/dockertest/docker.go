//go:build linux

package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// docker is a dockerd with a containerd and a bridge of its own.
var docker = kind{
	name: "dockerd", skip: "BERTH_TEST_SKIP_DOCKER", host: "BERTH_TEST_DOCKER_HOST",
	programs:   map[string]string{"dockerd": "docker.io", "runc": "runc", "containerd": "containerd"},
	command:    dockerCommand,
	tidy:       removeDockerBridge,
	containers: "data/containers/*",
}

func dockerCommand(dir string) (*exec.Cmd, error) {
	// Fifteen bytes are the most that an interface name may have.
	name := filepath.Base(dir)
	suffix := strings.TrimPrefix(name, "berth-dockerd-")
	bridge := "bth" + suffix[max(0, len(suffix)-12):]
	if err := os.WriteFile(filepath.Join(dir, "bridge"), []byte(bridge), 0o600); err != nil {
		return nil, err
	}
	if err := addBridge(bridge); err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("dockerd",
		"--host", "unix://"+filepath.Join(dir, "dockerd.sock"), "--pidfile", filepath.Join(dir, "pid"),
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--config-file", filepath.Join(dir, "daemon.json"),
		"--bridge", bridge, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
		"--userland-proxy=true", "--shutdown-timeout", "2", // the one way to a published port without firewall rules
		"--containerd-namespace", name, "--containerd-plugins-namespace", name+"-plugins")
	// Its own process group: an interrupt at the terminal is for the tests,
	// which then close the engine. Killed tests cannot: the kernel tells it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	return cmd, nil
}

func removeDockerBridge(dir string) {
	if bridge, err := os.ReadFile(filepath.Join(dir, "bridge")); err == nil {
		_ = removeBridge(string(bridge))
	}
}
