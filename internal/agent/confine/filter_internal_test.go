//go:build linux

package confine

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// interpret runs a filter as the kernel does, on a call.
func interpret(t *testing.T, code []unix.SockFilter, arch uint32, number int64, args ...uint64) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data, uint32(number))
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc, x uint32
	var cells [16]uint32
	for pc := 0; pc < len(code); pc++ {
		in := code[pc]
		skip := func(yes bool) {
			if yes {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[in.K:])
		case unix.BPF_LDX | unix.BPF_W | unix.BPF_MEM:
			x = cells[in.K]
		case unix.BPF_ST:
			cells[in.K] = acc
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
		case unix.BPF_ALU | unix.BPF_XOR | unix.BPF_K:
			acc ^= in.K
		case unix.BPF_ALU | unix.BPF_OR | unix.BPF_X:
			acc |= x
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			skip(acc == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			skip(acc >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			skip(acc&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d: unknown code %#x", pc, in.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

func build(t *testing.T, p policy) []unix.SockFilter {
	t.Helper()
	code, err := p.filter()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestFilter defends: on every interface of every architecture, by arguments whose upper
// halves are filled too, the filter says what the package's documentation says.
func TestFilter(t *testing.T) {
	const high = 0xffffffff00000000
	var (
		denied   = retErrno(unix.EPERM)
		closed   = retErrno(unix.EACCES)
		noFamily = retErrno(unix.EAFNOSUPPORT)
		absent   = retErrno(unix.ENOSYS)
	)
	secret := pass{1<<63 | 7, 42, math.MaxUint64}
	for goarch, tables := range abis {
		for i, a := range tables {
			for _, asks := range []bool{true, false} {
				p := policy{abis: tables, asks: asks, pass: secret}
				code := build(t, p)
				check := func(what string, want uint32, number uint32, args ...uint64) {
					t.Helper()
					if got := interpret(t, code, a.arch, int64(number), args...); got != want {
						t.Errorf("%s, interface %d, asks %v: %s: %#x, want %#x", goarch, i, asks, what, got, want)
					}
				}
				ask, unixSocket := uint32(retAllow), closed
				if asks {
					ask, unixSocket = retAsk, retAllow
				}
				check("connect", ask, a.connect, 3, 0x1000, 110)
				check("listen", ask, a.listen, 3, 5)
				withPass := ask
				if i == 0 {
					withPass = retAllow
				}
				check("connect with the pass", withPass, a.connect, 3, 0x1000, 110, secret[0], secret[1], secret[2])
				for word := range secret {
					for _, bit := range []uint64{1, 1 << 31, 1 << 32, 1 << 63} {
						wrong := secret
						wrong[word] ^= bit
						check("connect with a wrong pass", ask, a.connect, 3, 0x1000, 110, wrong[0], wrong[1], wrong[2])
					}
				}
				for _, flags := range []uint64{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, high} {
					check("stream", unixSocket, a.socket, unix.AF_UNIX, unix.SOCK_STREAM|flags, 0)
					check("seqpacket", unixSocket, a.socket, unix.AF_UNIX|high, unix.SOCK_SEQPACKET|flags, 0)
					check("dgram", closed, a.socket, unix.AF_UNIX|high, unix.SOCK_DGRAM|flags, 0)
					check("raw", closed, a.socket, unix.AF_UNIX, unix.SOCK_RAW|flags, 0)
					check("stream pair", retAllow, a.socketpair, unix.AF_UNIX, unix.SOCK_STREAM|flags, 0)
					check("dgram pair", closed, a.socketpair, unix.AF_UNIX|high, unix.SOCK_DGRAM|flags, 0)
					check("raw pair", closed, a.socketpair, unix.AF_UNIX, unix.SOCK_RAW|flags, 0)
				}
				for _, family := range []uint64{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET} {
					check("family", retAllow, a.socket, family|high, unix.SOCK_DGRAM)
				}
				for _, family := range []uint64{unix.AF_UNSPEC, unix.AF_VSOCK, unix.AF_ALG, unix.AF_TIPC, unix.AF_QIPCRTR, unix.AF_BLUETOOTH, 255} {
					check("family", noFamily, a.socket, family, unix.SOCK_STREAM)
					check("pair of family", noFamily, a.socketpair, family, unix.SOCK_STREAM)
				}
				for _, request := range []uint64{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSTI | 1<<32, unix.TIOCLINUX | high} {
					check("ioctl", denied, a.ioctl, 0, request)
				}
				check("ioctl", retAllow, a.ioctl, 0, unix.TIOCGWINSZ)
				check("undumpable", retErrno(0), a.prctl, unix.PR_SET_DUMPABLE|high, 0)
				check("dumpable", retAllow, a.prctl, unix.PR_SET_DUMPABLE, 1)
				check("prctl", retAllow, a.prctl, unix.PR_SET_NAME, 0)
				for _, number := range []uint32{a.clone, a.unshare} {
					check("userns", denied, number, unix.CLONE_NEWUSER|high)
					check("userns and more", denied, number, unix.CLONE_NEWUSER|unix.CLONE_NEWNS|uint64(unix.SIGCHLD))
					check("fork", retAllow, number, uint64(unix.SIGCHLD)|unix.CLONE_VM|unix.CLONE_VFORK)
				}
				check("setns", denied, a.setns, 3, 0)
				check("clone3", retAllow, a.clone3, 0x1000, 88)
				for _, number := range a.denied {
					check("denied", denied, number)
				}
				for _, number := range a.absent {
					check("absent", absent, number)
				}
				checkModes(t, p, a, i == 0, check)
				checkProcesses(p, a, i == 0, check)
				if a.foreign != 0 {
					check("x32 connect", absent, a.foreign|a.connect, 3, 0x1000, 110)
					check("x32 lowest", absent, a.foreign)
					check("none", absent, math.MaxUint32)
				}
				listed := slices.Concat(a.denied, a.absent, []uint32{a.connect, a.listen, a.socket, a.socketpair, a.clone, a.unshare, a.setns, a.ioctl, a.prctl, sysOpenat2, a.prlimit, a.setpriority, a.ioprioSet}, a.scheduled, a.modes())
				for number := range uint32(600) {
					if !slices.Contains(listed, number) {
						check(fmt.Sprintf("call %d", number), retAllow, number, high, high, high)
					}
				}
			}
			code := build(t, policy{abis: tables, clone3: true})
			if got := interpret(t, code, a.arch, sysClone3, 0x1000, 88); got != absent {
				t.Errorf("%s, interface %d: clone3 refused: %#x", goarch, i, got)
			}
		}
		code := build(t, policy{abis: tables})
		for _, arch := range []uint32{0, unix.AUDIT_ARCH_S390X, unix.AUDIT_ARCH_X86_64 ^ 1, math.MaxUint32} {
			if got := interpret(t, code, arch, 42); got != retKill {
				t.Errorf("%s: foreign architecture %#x: %#x", goarch, arch, got)
			}
		}
	}
}

// modes are the calls that look at a mode.
func (a *abi) modes() []uint32 {
	all := []uint32{a.open, a.openat, a.creat, a.mknod, a.mknodat, a.chmod, a.fchmod, a.fchmodat, sysFchmodat2}
	return slices.DeleteFunc(all, func(n uint32) bool { return n == 0 })
}

type checker = func(what string, want, number uint32, args ...uint64)

// checkModes is about calls that could make a file which runs as its owner.
func checkModes(t *testing.T, p policy, a abi, own bool, check checker) {
	t.Helper()
	const (
		high   = 0xffffffff00000000
		junk   = 0x7fff12345fff // what is in a register that open does not read
		create = unix.O_WRONLY | unix.O_CREAT
	)
	denied, asked := retErrno(unix.EPERM), retErrno(unix.EPERM)
	if p.asks {
		asked = retAsk
	}
	for _, mode := range []uint64{0, 0o755, 0o1777, 0o755 | high} {
		for _, number := range a.modes() {
			check("plain mode", retAllow, number, create, mode, mode, mode)
		}
	}
	for _, mode := range []uint64{0o4755, 0o2755, 0o6000, 0o4000 | high, unix.S_IFREG | 0o4711} {
		one := func(want, number uint32, args ...uint64) {
			if number != 0 {
				check(fmt.Sprintf("mode %#o", mode), want, number, args...)
			}
		}
		one(asked, a.chmod, 0x1000, mode)
		one(asked, a.fchmod, 3, mode)
		one(asked, a.fchmodat, 3, 0x1000, mode)
		one(asked, sysFchmodat2, 3, 0x1000, mode, 0)
		one(denied, a.creat, 0x1000, mode)
		one(denied, a.mknod, 0x1000, mode)
		one(denied, a.mknodat, 3, 0x1000, mode)
		for _, flags := range []uint64{create, create | high, unix.O_RDWR | unix.O_TMPFILE} {
			one(denied, a.open, 0x1000, flags, mode)
			one(denied, a.openat, 3, 0x1000, flags, mode)
		}
		one(retAllow, a.open, 0x1000, unix.O_RDWR|unix.O_DIRECTORY, junk)
		one(retAllow, a.openat, 3, 0x1000, unix.O_RDWR|unix.O_DIRECTORY, junk)
		withPass := asked
		if own && p.asks {
			withPass = retAllow
		}
		one(withPass, a.fchmodat, 3, 0x1000, mode, p.pass[0], p.pass[1], p.pass[2])
		one(asked, a.fchmodat, 3, 0x1000, mode, p.pass[0]^1, p.pass[1], p.pass[2])
	}
	absent, withPass := retErrno(unix.ENOSYS), retErrno(unix.ENOSYS)
	if own {
		withPass = retAllow
	}
	check("openat2", absent, sysOpenat2, 3, 0x1000, 0x2000, 24)
	check("openat2 with the pass", withPass, sysOpenat2, 3, 0x1000, 0x2000, 24, p.pass[1], p.pass[2])
	check("openat2 with a wrong pass", absent, sysOpenat2, 3, 0x1000, 0x2000, 24, p.pass[1], p.pass[2]^1<<40)
	check("openat2 with a wrong pass", absent, sysOpenat2, 3, 0x1000, 0x2000, 24, p.pass[1]^1, p.pass[2])
}

// checkProcesses is about calls that change a process named by a number.
func checkProcesses(p policy, a abi, own bool, check checker) {
	const high = 0xffffffff00000000
	denied, asked := retErrno(unix.EPERM), retErrno(unix.EPERM)
	if p.asks {
		asked = retAsk
	}
	for _, pid := range []uint64{1, 4711, 1<<32 - 1, 1 | high} {
		check("limits of another", asked, a.prlimit, pid, unix.RLIMIT_AS, 0x1000, 0)
		check("limits of another", asked, a.prlimit, pid, unix.RLIMIT_AS, 0x1000|high, 0)
		check("limits of another", asked, a.prlimit, pid, unix.RLIMIT_AS, 1<<40, 0)
		check("reading another's limits", retAllow, a.prlimit, pid, unix.RLIMIT_AS, 0, 0x1000)
		for _, number := range a.scheduled {
			check("scheduling of another", asked, number, pid, 8, 0x1000)
			withPass := asked
			if own && p.asks {
				withPass = retAllow
			}
			check("scheduling of another with the pass", withPass, number, pid, 8, 0x1000, p.pass[0], p.pass[1], p.pass[2])
			check("scheduling of another with a wrong pass", asked, number, pid, 8, 0x1000, p.pass[0], p.pass[1]^1, p.pass[2])
		}
		for which := range uint64(3) {
			check("priority of others", map[bool]uint32{true: denied, false: asked}[which == prioUser], a.setpriority, which, pid, 5)
			check("disk priority of others", map[bool]uint32{true: denied, false: asked}[which+1 == ioprioUser], a.ioprioSet, which+1, pid, 5)
		}
	}
	for _, none := range []uint64{0, high} {
		check("own limits", retAllow, a.prlimit, none, unix.RLIMIT_AS, 0x1000, 0)
		check("own priority", retAllow, a.setpriority, prioProcess, none, 5)
		check("own group's", retAllow, a.setpriority, 1, none, 5)
		check("own user's", denied, a.setpriority, prioUser, none, 5)
		check("own disk priority", retAllow, a.ioprioSet, ioprioProcess, none, 5)
		check("own user's", denied, a.ioprioSet, ioprioUser, none, 5)
		for _, number := range a.scheduled {
			check("own scheduling", retAllow, number, none, 8, 0x1000)
		}
	}
}

// TestNumbers defends: the numbers of this machine's own interface are the system's.
func TestNumbers(t *testing.T) {
	a := abis[runtime.GOARCH][0]
	got := slices.Concat([]uint32{a.connect, a.listen, a.socket, a.socketpair, a.clone, a.clone3, a.unshare, a.setns, a.ioctl, a.prctl}, a.denied, a.absent,
		[]uint32{a.fchmod, a.fchmodat, sysFchmodat2, a.mknodat, a.openat, sysOpenat2, a.prlimit, a.setpriority, a.ioprioSet}, a.scheduled)
	want := []uint32{
		unix.SYS_CONNECT, unix.SYS_LISTEN, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_IOCTL, unix.SYS_PRCTL,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SYSLOG,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_MKNODAT, unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
