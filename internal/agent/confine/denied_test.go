//go:build linux

package confine_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/confine"
)

func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errnoOrNil(errno)
}

// denied makes the calls that no command needs.
func denied([]string) error {
	say := func(what string, err error) { fmt.Println(what, name(err)) }
	var space [256]byte
	at := uintptr(unsafe.Pointer(&space[0]))
	say("io_uring_setup", raw(unix.SYS_IO_URING_SETUP, 8, at))
	say("unshare user", raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER))
	say("setns", raw(unix.SYS_SETNS, 0, 0))
	say("bpf", raw(unix.SYS_BPF, 0, at, 64))
	say("keyctl", raw(unix.SYS_KEYCTL, 0, 0, 0))
	say("userfaultfd", raw(unix.SYS_USERFAULTFD, 1))
	say("syslog", raw(unix.SYS_SYSLOG, 10))
	say("TIOCSTI", raw(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, at))
	for _, s := range []struct {
		what         string
		family, kind int
	}{
		{"unix dgram", unix.AF_UNIX, unix.SOCK_DGRAM},
		{"unix raw", unix.AF_UNIX, unix.SOCK_RAW},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM},
		{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET},
		{"netlink", unix.AF_NETLINK, unix.SOCK_RAW},
		{"inet", unix.AF_INET6, unix.SOCK_DGRAM},
	} {
		_, err := unix.Socket(s.family, s.kind, 0)
		say(s.what, err)
	}
	_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	say("stream pair", err)
	_, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	say("dgram pair", err)
	say("undumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	say(fmt.Sprint("dumpable ", dumpable), err)
	_, err = os.ReadFile("/proc/1/environ")
	fmt.Println("the guest's environment:", os.IsPermission(err))
	if out, err := exec.Command("/bin/sh", "-c", "echo started").CombinedOutput(); err != nil || string(out) != "started\n" {
		say("a shell: "+string(out), err)
	}
	clone3 := raw(unix.SYS_CLONE3, at, 7)
	fmt.Println("clone3 refused:", clone3 == unix.ENOSYS)
	return nil
}

// TestDenied defends: what container engines refuse by default is refused, a command cannot
// hide from the guest, and everything else works.
func TestDenied(t *testing.T) {
	const want = `io_uring_setup ENOSYS
unshare user EPERM
setns EPERM
bpf EPERM
keyctl EPERM
userfaultfd EPERM
syslog EPERM
TIOCSTI EPERM
unix dgram EACCES
unix raw EACCES
vsock EAFNOSUPPORT
alg EAFNOSUPPORT
netlink ok
inet ok
stream pair ok
dgram pair EACCES
undumpable ok
dumpable 1 ok
the guest's environment: true
clone3 refused: `
	for what, p := range places(t) {
		for _, refuse := range []string{"", "yes"} {
			t.Run(what+refuse, func(t *testing.T) {
				p := p
				p.env = []string{"REFUSE_CLONE3=" + refuse}
				out := p.run(t, openDir(t), "denied")
				if diff := cmp.Diff(want+fmt.Sprintln(refuse != ""), out); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestPrograms defends: programs that use clone3, threads and ptrace run where clone3 is
// refused.
func TestPrograms(t *testing.T) {
	p := place{env: []string{"REFUSE_CLONE3=yes"}}
	for _, argv := range [][]string{
		{"/bin/sh", "-c", "echo ok | cat"},
		{"/usr/bin/env", "python3", "-c", "import subprocess, threading; t = threading.Thread(target=lambda: subprocess.run(['echo', 'ok'])); t.start(); t.join()"},
		{"strace", "-f", "-o", "/dev/null", "sh", "-c", "echo ok | cat"},
		{"busybox", "sh", "-c", "echo ok | cat"},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue
		}
		out := p.run(t, openDir(t), "exec", argv...)
		if out != "ok\n" {
			t.Errorf("%q: %q", argv, out)
		}
	}
}

func execute(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, argv, os.Environ())
}

// nested is a guest that cannot have a listener, as a filter with one is there already.
func nested([]string) error {
	notice, err := confine.Install(confine.Options{})
	if err != nil {
		return err
	}
	fmt.Println(strings.Contains(notice, "cannot make unix sockets"))
	_, stream := socket(unix.SOCK_STREAM)
	_, packet := socket(unix.SOCK_SEQPACKET)
	_, pair := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	l, port := inetListen(5)
	defer unix.Close(l)
	fmt.Println(name(stream), name(packet), name(pair), name(call(unix.SYS_CONNECT, inetSocket(unix.SOCK_STREAM), loopback(port))))
	return nil
}

// TestFallback defends: where the guest cannot answer, unix sockets are refused, pairs and
// the network work, and the notice says so.
func TestFallback(t *testing.T) {
	if out := (place{}).run(t, openDir(t), "nested"); out != "true\nEACCES EACCES ok ok\n" {
		t.Error(out)
	}
}
