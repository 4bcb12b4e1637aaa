//go:build linux

package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Podman returns an engine that is Podman's service. It lives in pid, mount and network
// namespaces of its own, so that its end is that of its containers, which no daemon
// would end, and its networks are nobody else's: what its containers listen on is reached by
// Within.
func Podman() *Engine { return &Engine{kind: &podman} }

var podman = kind{
	name: "podman", skip: "BERTH_TEST_SKIP_PODMAN", host: "BERTH_TEST_PODMAN_HOST",
	programs:   map[string]string{"podman": "podman", "runc": "runc", "conmon": "conmon", "/usr/lib/podman/netavark": "netavark", "iptables": "iptables"},
	command:    podmanCommand,
	tidy:       removePodmanGroups,
	containers: podmanContainers,
}

const podmanContainers = "root/overlay-containers/*"

const podmanConfigFile = "containers.conf"

// podmanConfig keeps apart what the command line does not. runc, as crun refuses control
// groups of both versions side by side; limits that a root without CAP_SYS_RESOURCE
// can set.
const podmanConfig = `[containers]
default_ulimits = ["nofile=16384:16384", "nproc=32768:32768"]
[network]
network_config_dir = "%[1]s/networks"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "%[1]s/tmp"
`

// podmanScript is pid 1 of the namespaces. It waits for whatever is left to it. Podman
// keeps in /run what it does not keep below its roots, and asks dpkg for versions, which
// takes a second, whenever it is asked what it is.
const podmanScript = `mount -t proc proc /proc && mount -t tmpfs tmpfs /run && /bin/busybox ip link set lo up || exit
[ ! -e /usr/bin/dpkg-query ] || mount --bind /bin/true /usr/bin/dpkg-query || exit
podman --root "$0/root" --runroot "$0/runroot" system service --time=0 "unix://$0/podman.sock" &
trap exit TERM
wait`

func podmanCommand(dir string) (*exec.Cmd, error) {
	config := filepath.Join(dir, podmanConfigFile)
	if err := os.WriteFile(config, fmt.Appendf(nil, podmanConfig, dir), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", podmanScript, dir)
	cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+config)
	// KILL: pid 1 takes TERM only once it has its trap.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	return cmd, nil
}

// Command is the engine's own program, with the options that make it the same engine: it
// sees the containers of the service. An engine that is not ours skips the test.
func (e *Engine) Command(t testing.TB) []string {
	t.Helper()
	e.Host(t)
	if e.kind != &podman || e.daemon == nil {
		t.Skip("the engine is no podman of ours")
	}
	dir := e.daemon.dir
	return []string{
		"nsenter", "--target", strconv.Itoa(e.daemon.pid), "--mount", "--pid", "--net", "env", "CONTAINERS_CONF=" + filepath.Join(dir, podmanConfigFile),
		"podman", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "runroot"),
	}
}

// removePodmanGroups removes the control groups of containers that were killed with
// everything that could have done so.
func removePodmanGroups(dir string) {
	containers, _ := filepath.Glob(filepath.Join(dir, podmanContainers))
	for _, c := range containers {
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/libpod_parent/libpod-" + filepath.Base(c) + "*")
		for _, group := range groups {
			_ = os.Remove(group)
		}
	}
}
