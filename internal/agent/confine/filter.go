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

// pass is what the guest puts into the arguments 3 to 5 of its own connect(2), which the
// kernel does not use: it is known to nobody else, and the filter lets such a call through
// instead of asking the guest for itself. Nobody can read it: the guest is not dumpable,
// and nobody finds it: the comparison takes the same time for every guess.
type pass [3]uint64

// policy is what a filter is made from.
type policy struct {
	abis []abi
	// asks: connect and listen are for the guest to answer, but for connects with
	// the pass. Else there are no unix sockets.
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
	on(a.socket, "socket")
	on(a.socketpair, "pair")
	on(a.ioctl, "ioctl")
	on(a.prctl, "prctl")
	on(a.clone, "userns")
	on(a.unshare, "userns")
	on(a.setns, "denied")
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
	rest(f, to)
}

// sockets writes what is looked at in calls about sockets.
func (p *policy) sockets(f *program, to func(string) string, own bool) {
	if p.asks {
		f.label(to("connect"))
		if own {
			p.checkPass(f, to("allowed"))
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

// checkPass goes to the label if the call has the pass, and on if not.
func (p *policy) checkPass(f *program, label string) {
	const differs = 0
	first := true
	for i, word := range p.pass {
		for _, half := range []struct{ offset, k uint32 }{
			{lowWord(uint32(3 + i)), uint32(word)}, {highWord(uint32(3 + i)), uint32(word >> 32)},
		} {
			f.load(half.offset)
			f.xor(half.k)
			if !first {
				f.orKept(differs)
			}
			f.keep(differs)
			first = false
		}
	}
	f.branch(unix.BPF_JEQ, 0, label, "")
}
