//go:build linux

package confine

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The words of struct seccomp_data, on a machine that stores the low half first, as all
// do for which there is a table here.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func lowWord(arg uint32) uint32  { return offArgs + 8*arg }
func highWord(arg uint32) uint32 { return offArgs + 8*arg + 4 }

// pass is what the guest puts into the arguments 3 to 5 of its own connect(2), fchmodat(2)
// and calls about scheduling, which the kernel does not use, and its last two words into the arguments 4
// and 5 of openat2(2): it is known to nobody else, and the filter lets such a call through
// instead of asking the guest for itself. Nobody can read it: the guest is not dumpable,
// and nobody finds it: the comparison takes the same time for every guess.
type pass [3]uint64

// policy is what a filter is made from.
type policy struct {
	abis []abi
	// asks: connect and listen are for the guest to answer, but for connects with
	// the pass, and so are the bits of a directory and what is done to a process by its
	// number. Else there are no unix sockets, and the others are refused.
	asks   bool
	pass   pass
	clone3 bool // refuse it
}

// What the filter says.
const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retAsk   = unix.SECCOMP_RET_USER_NOTIF
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func retErrno(e syscall.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// sockTypeMask takes the flags off a socket's type: SOCK_TYPE_MASK of the kernel, which
// takes SOCK_RAW of the unix family for SOCK_DGRAM.
const sockTypeMask = 0xf

// families are those that socket(2) makes.
var families = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK, unix.AF_PACKET}

// filter writes the program.
func (p *policy) filter() ([]unix.SockFilter, error) {
	f := newProgram()
	f.load(offArch)
	for i, a := range p.abis {
		next := "not " + strconv.Itoa(i)
		f.branch(unix.BPF_JEQ, a.arch, "", next)
		f.jumpTo("abi " + strconv.Itoa(i))
		f.label(next)
	}
	f.ret(retKill)
	for i, a := range p.abis {
		name := "abi " + strconv.Itoa(i)
		f.label(name)
		p.calls(f, a, name, i == 0)
	}
	return f.assemble()
}

// calls writes the part for one interface. own is the interface of the guest.
func (p *policy) calls(f *program, a abi, name string, own bool) {
	to := func(what string) string { return name + " " + what }
	f.load(offNumber)
	if a.foreign != 0 {
		f.branch(unix.BPF_JGE, a.foreign, to("absent"), "")
	}
	on := func(number uint32, what string) { f.branch(unix.BPF_JEQ, number, to(what), "") }
	if p.asks {
		on(a.connect, "connect")
		on(a.listen, "ask")
	}
	on(a.openat, "openat") // the most frequent of those that are looked at
	on(a.socket, "socket")
	on(a.socketpair, "pair")
	on(a.ioctl, "ioctl")
	on(a.prctl, "prctl")
	on(a.clone, "userns")
	on(a.unshare, "userns")
	on(a.setns, "denied")
	for _, number := range a.scheduled {
		on(number, "process")
	}
	on(a.prlimit, "prlimit")
	on(a.setpriority, "priority")
	on(a.ioprioSet, "ioprio")
	for _, mode := range []struct {
		number uint32
		what   string
	}{
		{a.open, "open"},
		{a.creat, "make"},
		{a.mknod, "make"},
		{a.mknodat, "make at"},
		{a.chmod, "chmod"},
		{a.fchmod, "chmod"},
		{a.fchmodat, "chmod at"},
		{sysFchmodat2, "chmod at"},
	} {
		if mode.number != 0 {
			on(mode.number, mode.what)
		}
	}
	on(sysOpenat2, "openat2")
	if p.clone3 {
		on(a.clone3, "absent")
	}
	for _, number := range a.denied {
		on(number, "denied")
	}
	for _, number := range a.absent {
		on(number, "absent")
	}
	f.ret(retAllow)
	p.sockets(f, to, own)
	p.modes(f, to, own)
	p.processes(f, to, own)
	rest(f, to)
}

// sockets writes what is looked at in calls about sockets.
func (p *policy) sockets(f *program, to func(string) string, own bool) {
	if p.asks {
		f.label(to("connect"))
		if own {
			p.checkPass(f, 0, to("allowed"))
		}
		f.label(to("ask"))
		f.ret(retAsk)
	}
	f.label(to("socket"))
	if !p.asks {
		f.load(lowWord(0))
		f.branch(unix.BPF_JEQ, unix.AF_UNIX, to("closed"), "")
	}
	f.label(to("pair"))
	f.load(lowWord(0))
	for _, family := range families {
		f.branch(unix.BPF_JEQ, family, to("allowed"), "")
	}
	f.branch(unix.BPF_JEQ, unix.AF_UNIX, "", to("no family"))
	f.load(lowWord(1))
	f.and(sockTypeMask)
	f.branch(unix.BPF_JEQ, unix.SOCK_STREAM, to("allowed"), "")
	f.branch(unix.BPF_JEQ, unix.SOCK_SEQPACKET, to("allowed"), to("closed"))
}

// privileged are the bits that let a program run as whom it belongs to.
const privileged = unix.S_ISUID | unix.S_ISGID

// makes are the flags with which open(2) looks at its mode: O_CREAT and __O_TMPFILE, the
// same for all that there is a table for.
const makes = 0x40 | 0x400000

// modes writes what is looked at in calls about the mode of a file. mkdir is not among
// them: the kernel leaves these bits out of its mode.
func (p *policy) modes(f *program, to func(string) string, own bool) {
	for _, open := range []struct {
		what  string
		flags uint32
	}{{"open", 1}, {"openat", 2}} {
		f.label(to(open.what))
		f.load(lowWord(open.flags))
		f.branch(unix.BPF_JSET, makes, "", to("allowed"))
		f.load(lowWord(open.flags + 1))
		f.branch(unix.BPF_JSET, privileged, to("denied"), to("allowed"))
	}
	for _, made := range []struct {
		what string
		mode uint32
	}{{"make", 1}, {"make at", 2}} {
		f.label(to(made.what))
		f.load(lowWord(made.mode))
		f.branch(unix.BPF_JSET, privileged, to("denied"), to("allowed"))
	}
	f.label(to("chmod"))
	f.load(lowWord(1))
	f.branch(unix.BPF_JSET, privileged, to("asked"), to("allowed"))
	f.label(to("chmod at"))
	f.load(lowWord(2))
	f.branch(unix.BPF_JSET, privileged, "", to("allowed"))
	if own && p.asks {
		p.checkPass(f, 0, to("allowed"))
	}
	f.label(to("asked")) // it may be a directory
	f.ret(p.askOr(unix.EPERM))

	f.label(to("openat2")) // its flags and its mode are in memory
	if own {
		p.checkPass(f, 1, to("allowed"))
	}
	f.jumpTo(to("absent"))
}

// processes writes what is looked at in calls that change another process: the kernel lets
// all of one user do so, the guest included.
func (p *policy) processes(f *program, to func(string) string, own bool) {
	f.label(to("prlimit"))
	f.load(lowWord(2))
	f.branch(unix.BPF_JEQ, 0, "", to("process")) // it sets limits
	f.load(highWord(2))
	f.branch(unix.BPF_JEQ, 0, to("allowed"), "")
	f.label(to("process"))
	f.load(lowWord(0))
	f.branch(unix.BPF_JEQ, 0, to("allowed"), to("other"))

	// Of all that belong to a user, the guest is one.
	f.label(to("priority"))
	f.load(lowWord(0))
	f.branch(unix.BPF_JEQ, prioUser, to("denied"), to("who"))
	f.label(to("ioprio"))
	f.load(lowWord(0))
	f.branch(unix.BPF_JEQ, ioprioUser, to("denied"), "")
	f.label(to("who"))
	f.load(lowWord(1))
	f.branch(unix.BPF_JEQ, 0, to("allowed"), "")

	f.label(to("other")) // it may be one that is not the guest
	if own && p.asks {
		p.checkPass(f, 0, to("allowed"))
	}
	f.ret(p.askOr(unix.EPERM))
}

// askOr asks the guest, or refuses where there is nobody to ask.
func (p *policy) askOr(e syscall.Errno) uint32 {
	if p.asks {
		return retAsk
	}
	return retErrno(e)
}

// Whom setpriority(2) and ioprio_set(2) mean.
const (
	prioProcess   = 0
	prioUser      = 2
	ioprioProcess = 1
	ioprioUser    = 3
)

// rest writes what is looked at in the other calls, and how all of them end.
func rest(f *program, to func(string) string) {
	f.label(to("ioctl")) // the kernel uses 32 bits of the request
	f.load(lowWord(1))
	f.branch(unix.BPF_JEQ, unix.TIOCSTI, to("denied"), "")
	f.branch(unix.BPF_JEQ, unix.TIOCLINUX, to("denied"), to("allowed"))

	f.label(to("prctl"))
	f.load(lowWord(0))
	f.branch(unix.BPF_JEQ, unix.PR_SET_DUMPABLE, "", to("allowed"))
	f.load(lowWord(1))
	f.branch(unix.BPF_JEQ, 0, to("done"), to("allowed"))

	f.label(to("userns"))
	f.load(lowWord(0))
	f.branch(unix.BPF_JSET, unix.CLONE_NEWUSER, to("denied"), to("allowed"))

	for _, end := range []struct {
		what   string
		action uint32
	}{
		{"allowed", retAllow},
		{"denied", retErrno(unix.EPERM)},
		{"closed", retErrno(unix.EACCES)},
		{"no family", retErrno(unix.EAFNOSUPPORT)},
		{"absent", retErrno(unix.ENOSYS)},
		{"done", retErrno(0)},
	} {
		f.label(to(end.what))
		f.ret(end.action)
	}
}

// checkPass goes to the label if the call has the pass, from its word first on, and on if
// not.
func (p *policy) checkPass(f *program, first int, label string) {
	const differs = 0
	for i := first; i < len(p.pass); i++ {
		word, arg := p.pass[i], uint32(3+i)
		for n, half := range []struct{ offset, k uint32 }{
			{lowWord(arg), uint32(word)}, {highWord(arg), uint32(word >> 32)},
		} {
			f.load(half.offset)
			f.xor(half.k)
			if i > first || n > 0 {
				f.orKept(differs)
			}
			f.keep(differs)
		}
	}
	f.branch(unix.BPF_JEQ, 0, label, "")
}
