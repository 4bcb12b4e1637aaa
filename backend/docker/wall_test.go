//go:build linux

package docker_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/dockertest"
	"github.com/berth-dev/berth/spec"
)

// readLimit prints a limit as the container's cgroup has it, v1 or v2.
const readLimit = `for f in %s; do [ -r /sys/fs/cgroup/$f ] && exec cat /sys/fs/cgroup/$f; done; exit 1`

func cgroup(t *testing.T, sb *berth.Sandbox, files string) string {
	t.Helper()
	return sh(t, sb, strings.ReplaceAll(readLimit, "%s", files))
}

// Limits and hardening are in force in the kernel, not only in the request.
func TestLimitsAreInTheCgroup(t *testing.T) {
	o := testOptions(t)
	s := busybox(t)
	s.Limits = spec.Limits{MemoryBytes: 64 << 20, PIDs: 64, CPUMillis: 500}
	sb := provision(t, newDriver(t, o), s)
	for _, want := range []struct{ files, value string }{
		{"memory/memory.limit_in_bytes memory.max", "67108864"},
		{"pids/pids.max pids.max", "64"},
	} {
		if got := cgroup(t, sb, want.files); got != want.value {
			t.Errorf("%s: %s, want %s", want.files, got, want.value)
		}
	}
	if got := cgroup(t, sb, "memory/memory.memsw.limit_in_bytes memory.swap.max"); got != "67108864" && got != "0" {
		t.Errorf("swap limit %s: memory can be exceeded into swap", got)
	}
	if got := cgroup(t, sb, "cpu/cpu.cfs_quota_us cpu.max"); got != "50000" && got != "50000 100000" {
		t.Errorf("cpu quota %s, want 50000", got)
	}
	caps, err := sb.Caps(testContext(t))
	if err != nil || !caps.LimitMemory || !caps.LimitPIDs || !caps.LimitCPU {
		t.Errorf("caps %+v, %v; want the limits declared", caps, err)
	}
}

// The default hardening holds without being asked for, and a knob that is turned off
// is off: a capability is gone with the drop and there without it.
func TestDefaultHardening(t *testing.T) {
	o := testOptions(t)
	s := busybox(t)
	status := func(sb *berth.Sandbox, field string) string {
		return sh(t, sb, "grep ^"+field+": /proc/self/status | cut -f2")
	}
	sb := provision(t, newDriver(t, o), s)
	if got := cgroup(t, sb, "pids/pids.max pids.max"); got != "512" {
		t.Errorf("pids limit %s, want 512", got)
	}
	// The engine's own list less NET_RAW (13), SETUID (7) and SETGID (6).
	if got := status(sb, "CapBnd"); got != "00000000a804053b" {
		t.Errorf("bounding set %s, want 00000000a804053b", got)
	}
	if got := status(sb, "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs %s, want 1", got)
	}
	if got := status(sb, "Seccomp"); got != "2" {
		t.Errorf("seccomp mode %s, want 2", got)
	}
	all := s
	all.Key, all.Hardening.DropCaps = "all", []string{"CAP_CHOWN", "all"}
	sb = provision(t, newDriver(t, o), all)
	if got := status(sb, "CapBnd"); got != "0000000000000000" {
		t.Errorf("bounding set %s after dropping all", got)
	}
	const chown = "touch f && chown 7 f 2>/dev/null && echo changed || echo refused"
	if got := sh(t, sb, chown); got != "refused" {
		t.Errorf("chown after dropping all: %s", got)
	}
	o.Limits, o.Hardening = &spec.Limits{}, &spec.Hardening{}
	off := s
	off.Key = "off"
	sb = provision(t, newDriver(t, o), off)
	if got := status(sb, "NoNewPrivs"); got != "0" {
		t.Errorf("NoNewPrivs %s without a drop, want 0", got)
	}
	if got := sh(t, sb, chown); got != "changed" {
		t.Errorf("chown without a drop: %s", got)
	}
	if got := status(sb, "CapBnd"); got != "00000000a80425fb" {
		t.Errorf("bounding set %s without a drop, want the engine's 00000000a80425fb", got)
	}
}

// A read-only root refuses writes everywhere but in the workdir and in /tmp, for root
// and for another user.
func TestReadOnlyRoot(t *testing.T) {
	for _, user := range []string{"", "1000", "65534:65534"} {
		for _, workdir := range []string{"", "/deep/er/work", "/tmp/work"} {
			t.Run(user+workdir, func(t *testing.T) {
				o, ctx := testOptions(t), testContext(t)
				s := busybox(t)
				s.Workdir, s.Hardening = workdir, spec.Hardening{ReadOnlyRoot: true, User: user}
				sb := provision(t, newDriver(t, o), s)
				sh(t, sb, "echo a >file && echo b >/tmp/file && mkdir d && mv file d/")
				if got := sh(t, sb, "stat -c %a /tmp"); user != "" && got != "1777" {
					t.Errorf("mode of /tmp %s, want 1777", got)
				}
				for _, path := range []string{"/etc/x", "/x", "/root/x", "/bin/busybox"} {
					err := sb.Files().WriteFile(ctx, path, []byte("x"), files.WriteOptions{})
					if !errors.Is(err, spec.ErrNotWritable) && !errors.Is(err, spec.ErrPermission) {
						t.Errorf("write %s: %v; want not_writable", path, err)
					}
				}
			})
		}
	}
}

// The workdir belongs to the container's user, however the user is named, also where
// its parents are missing; one that the image has is left as it is.
func TestWorkdirBelongsToTheUser(t *testing.T) {
	o := testOptions(t)
	for _, tt := range []struct {
		image         dockertest.Image
		user, workdir string
		want          string
	}{
		{image: dockertest.Image{Kind: dockertest.Busybox, UserName: true}, want: "1000:1000 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox, UID: 1000}, want: "1000:1000 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, user: "1234", workdir: "/a/b/c", want: "1234:0 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, user: "1234:55", want: "1234:55 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, want: "0:0 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, user: "0:0", want: "0:0 755"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, user: "1234", workdir: "/tmp", want: "0:0 1777"},
		{image: dockertest.Image{Kind: dockertest.Busybox}, user: "1234", workdir: "/", want: "0:0 755"},
	} {
		s := spec.Spec{Image: engine.Image(t, tt.image), Workdir: tt.workdir, Hardening: spec.Hardening{User: tt.user}}
		sb := provision(t, newDriver(t, o), s)
		// The top of an image that says nothing of it has the mode that its engine gives it.
		if got := sh(t, sb, "stat -c '%u:%g %a' ."); got != tt.want && (tt.workdir != "/" || got != "0:0 555") {
			t.Errorf("%+v user %q workdir %q: %s, want %s", tt.image, tt.user, tt.workdir, got, tt.want)
		}
		if dir := sh(t, sb, "pwd"); tt.workdir != "" && dir != tt.workdir {
			t.Errorf("commands run in %s, want %s", dir, tt.workdir)
		}
	}
}

// Network none has no route and only a loopback; open has one.
func TestNetwork(t *testing.T) {
	o := testOptions(t)
	for network, want := range map[spec.Network]bool{spec.NetworkDefault: false, spec.NetworkNone: false, spec.NetworkOpen: true} {
		s := busybox(t)
		s.Key, s.Network = "n"+spec.Key(network), network
		sb := provision(t, newDriver(t, o), s)
		routes := strings.Count(sh(t, sb, "cat /proc/net/route"), "\n")
		if (routes > 0) != want {
			t.Errorf("network %q: %d routes", network, routes)
		}
		if links := sh(t, sb, "ls /sys/class/net"); !want && links != "lo" {
			t.Errorf("network %q: interfaces %q", network, links)
		}
	}
}

// A mount point and a device cannot be replaced by a write, whoever asks.
func TestMountsAreNotReplaced(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	for _, user := range []string{"", "65534"} {
		s := busybox(t)
		s.Key, s.Hardening.User = spec.Key("u"+user), user
		sb := provision(t, newDriver(t, o), s)
		before := sh(t, sb, "cat /etc/hosts; ls /etc")
		mounts := sh(t, sb, "cat /proc/self/mountinfo")
		for _, path := range []string{"/etc/hosts", "/etc/resolv.conf", "/dev/null"} {
			if path == "/etc/resolv.conf" && !strings.Contains(mounts, " "+path+" ") {
				continue // an engine may have none for a container without a network
			}
			err := sb.Files().WriteFile(ctx, path, make([]byte, 256<<10), files.WriteOptions{})
			wantIs(t, "write "+path, err, spec.ErrNotReplaceable)
		}
		if after := sh(t, sb, "cat /etc/hosts; ls /etc"); after != before {
			t.Errorf("something changed:\n%s\nwas:\n%s", after, before)
		}
	}
}

// The guest's binary cannot be changed from inside: its volume is read-only for every
// place, whatever way is tried.
func TestGuestCannotBeReplaced(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	sb := provision(t, newDriver(t, o), busybox(t))
	const path = "/.berth/berth-guest"
	before := sh(t, sb, "sha256sum "+path)
	for _, script := range []string{
		"echo x >" + path, "rm -f " + path, "mv " + path + " /tmp/", "cp /bin/true " + path, "touch /.berth/x",
		"mount -o remount,rw /.berth", "umount /.berth", "mv /.berth /elsewhere", "echo x >/proc/1/exe", "cat /bin/true >/proc/1/root" + path,
		"ln -sf /bin/true " + path, "chmod 777 " + path,
	} {
		r, err := sb.Exec(ctx, berth.Shell(script), berth.ExecOptions{})
		if err != nil || r.ExitCode == 0 {
			t.Errorf("%s: %+v, %v; want it refused", script, r, err)
		}
	}
	err := sb.Files().WriteFile(ctx, path, []byte("x"), files.WriteOptions{})
	if !errors.Is(err, spec.ErrNotWritable) && !errors.Is(err, spec.ErrNotReplaceable) {
		t.Errorf("write: %v", err)
	}
	if err := sb.Files().Remove(ctx, path, files.RemoveOptions{}); err == nil {
		t.Errorf("remove: no error")
	}
	if after := sh(t, sb, "sha256sum "+path); after != before {
		t.Errorf("the binary is another one: %s, was %s", after, before)
	}
	if err := sb.Ping(ctx); err != nil {
		t.Error(err)
	}
}

// A command of the place cannot become its own host: the guest does not answer a peer
// that no engine started, though it knows the socket's name.
func TestWorkloadCannotReachTheGuest(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	sb := provision(t, newDriver(t, o), busybox(t))
	names := strings.Fields(sh(t, sb, `grep -o '@[0-9a-f]\{32\}' /proc/net/unix | sort -u`))
	if len(names) != 1 {
		t.Fatalf("abstract sockets %q, want the guest's", names)
	}
	body := `{"major":1,"minor":0,"client":"0123456789abcdef0123456789abcdef","profile":{}}`
	hello := "BRTH" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
	for _, script := range []string{
		"exec /.berth/berth-guest relay --abstract %s --peer-pid 1",
		"(exec /.berth/berth-guest relay --abstract %s --peer-pid 1)",
		"setsid /.berth/berth-guest relay --abstract %s",
	} {
		script = strings.ReplaceAll(script, "%s", strings.TrimPrefix(names[0], "@"))
		r, err := sb.Exec(ctx, berth.Shell(script), berth.ExecOptions{Stdin: bytes.NewReader([]byte(hello))})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Stdout) > 0 {
			t.Errorf("%s: the guest answered %q", script, r.Stdout)
		}
	}
}

// Environment values arrive byte for byte; what the engine's API cannot carry is
// refused, not changed.
func TestEnvIsByteExact(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	s := busybox(t)
	s.Env = map[string]string{"NL": "a\nb\n", "EMPTY": "", "DOLLAR": "$(X) ${PATH} `id`", "EQ": "=a=", "CTRL": "\x01\x7f\t\r", "U": "ü€\U0001f6a2", "HTML": "<&>\u2028", "PATH": "/bin:/x y"}
	sb := provision(t, newDriver(t, o), s)
	r, err := sb.Exec(ctx, []string{"env"}, berth.ExecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range s.Env {
		if !bytes.Contains(append([]byte("\n"), r.Stdout...), []byte("\n"+name+"="+value+"\n")) {
			t.Errorf("%s is not %q in %q", name, value, r.Stdout)
		}
	}
	bad := s
	bad.Key, bad.Env = "bad", map[string]string{"B": "\xff"}
	_, err = berth.Provision(ctx, newDriver(t, o), bad)
	wantIs(t, "an env that is not UTF-8", err, spec.ErrUnsupported)
}
