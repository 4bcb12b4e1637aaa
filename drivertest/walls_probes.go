package drivertest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/spec"
)

// Probes returns all probes, by topic.
func Probes() []Probe {
	var all []Probe
	for _, topic := range [][]Probe{readProbes(), writeProbes(), networkProbes(), socketProbes(), processProbes(), guestProbes(), kernelProbes()} {
		all = append(all, topic...)
	}
	return all
}

type trial = func(ctx context.Context, a *attempt) (Verdict, error)

func readProbes() []Probe {
	read := func(name func(m *machine) string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) { return a.reads(ctx, name(a.host)) }
	}
	below := func(dir func(m *machine) string) trial {
		return read(func(m *machine) string {
			if dir(m) == "" {
				return ""
			}
			return filepath.Join(dir(m), "canary")
		})
	}
	const topic = "reads"
	return []Probe{
		{Name: "ReadKeys", Topic: topic, What: "a key in `~/.ssh`", try: read(func(m *machine) string { return filepath.Join(m.home, ".ssh", "id_berth") })},
		{Name: "ReadHome", Topic: topic, What: "an ordinary file in the home directory", try: below(func(m *machine) string { return m.home })},
		{Name: "ReadOtherHome", Topic: topic, What: "an open file in somebody else's home directory", try: below(func(m *machine) string { return m.other })},
		{Name: "ReadShadow", Topic: topic, What: "`/etc/shadow`", try: tryShadow},
		{Name: "ReadTmp", Topic: topic, What: "an open file in this machine's `/tmp`", try: below(func(m *machine) string { return m.tmp })},
		{Name: "ReadElsewhere", Topic: topic, What: "an open file anywhere else", try: below(func(m *machine) string { return m.base })},
		{Name: "ReadWorkdir", Topic: topic, What: "a file in a workdir of this machine", try: below(func(m *machine) string { return m.work })},
	}
}

func tryShadow(ctx context.Context, a *attempt) (Verdict, error) {
	own, err := os.ReadFile("/etc/shadow")
	if err != nil {
		return WallUntried, nil // this user cannot read it in any case
	}
	r, err := a.sh(ctx, "cat /etc/shadow")
	if err != nil {
		return WallUntried, err
	}
	return openIf(bytes.Equal(r.Stdout, own)), nil
}

func writeProbes() []Probe {
	write := func(dir func(m *machine) string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) { return a.writes(ctx, dir(a.host)) }
	}
	at := func(dir string) trial { return write(func(*machine) string { return dir }) }
	const topic = "writes"
	return []Probe{
		{Name: "WriteRoot", Topic: topic, What: "a new file in `/`", try: at("")},
		{Name: "WriteUsr", Topic: topic, What: "a new file in `/usr`", try: at("/usr")},
		{Name: "WriteEtc", Topic: topic, What: "a new file in `/etc`", try: at("/etc")},
		{Name: "WriteHome", Topic: topic, What: "a new file in the home directory", try: write(func(m *machine) string { return m.home })},
		{Name: "WriteKeys", Topic: topic, What: "a new key in `~/.ssh`", try: write(func(m *machine) string { return filepath.Join(m.home, ".ssh") })},
		{Name: "WriteElsewhere", Topic: topic, What: "a new file outside of the writable roots", try: write(func(m *machine) string { return m.base })},
		{Name: "WriteTmp", Topic: topic, What: "a new file in this machine's `/tmp`", try: at("/tmp")},
		{Name: "WriteWorkdir", Topic: topic, What: "a new file in a workdir of this machine", try: write(func(m *machine) string { return m.work })},
		{Name: "WriteHook", Topic: topic, What: "`.git/hooks/pre-commit` of the workdir, which exists", try: tryHook},
		{Name: "Setuid", Topic: topic, What: "a program in a workdir of this machine that runs as its owner (setuid)", try: trySetuid},
		{Name: "MakeHook", Topic: topic, What: "`.envrc` in the workdir, which does not exist", try: tryEnvrc},
	}
}

func tryHook(ctx context.Context, a *attempt) (Verdict, error) {
	hook := filepath.Join(a.host.work, ".git", "hooks", "pre-commit")
	if _, err := a.sh(ctx, `echo "# evil" >>"$1"; rm -f "$1"; mv "${1%/*}" "${1%/*}-moved"`, hook); err != nil {
		return WallUntried, err
	}
	text, err := os.ReadFile(hook)
	return openIf(err != nil || string(text) != "#!/bin/sh\n"), nil
}

// trySetuid makes a file of no bytes, which does nothing for whom it would run.
func trySetuid(ctx context.Context, a *attempt) (Verdict, error) {
	name := filepath.Join(a.host.work, "berth-walls-"+randomHex())
	if _, err := a.sh(ctx, `: >"$1"; chmod 4755 "$1"`, name); err != nil {
		return WallUntried, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return WallStopped, nil
	}
	return openIf(info.Mode()&os.ModeSetuid != 0), os.Remove(name)
}

func tryEnvrc(ctx context.Context, a *attempt) (Verdict, error) {
	name := filepath.Join(a.host.work, ".envrc")
	r, err := a.sh(ctx, `echo evil >"$1"`, name)
	if err != nil {
		return WallUntried, err
	}
	if os.Remove(name) != nil {
		return WallStopped, nil
	}
	for _, reported := range r.HostExecutable {
		if strings.HasSuffix(reported, ".envrc") {
			return WallReported, nil
		}
	}
	return WallOpen, nil
}

func networkProbes() []Probe {
	loopback := func(ctx context.Context, a *attempt) (Verdict, error) {
		return a.raw(ctx, rawcall.ConnectInet(rawcall.Stream, [4]byte(a.host.tcp.IP.To4()), uint16(a.host.tcp.Port))...)
	}
	route := func(ctx context.Context, a *attempt) (Verdict, error) {
		if !hasRoute() {
			return WallUntried, nil
		}
		return a.raw(ctx, rawcall.ConnectInet(rawcall.Datagram, outside, 9)...)
	}
	var out []Probe
	for _, p := range []struct {
		policy spec.Network
		suffix string
	}{{spec.NetworkNone, "Closed"}, {spec.NetworkOpen, "Opened"}} {
		out = append(out,
			Probe{Name: "Loopback" + p.suffix, Topic: "network", What: "a service on this machine's loopback", Network: p.policy, try: loopback},
			Probe{Name: "Outside" + p.suffix, Topic: "network", What: "an address outside", Network: p.policy, try: route},
		)
	}
	return out
}

func socketProbes() []Probe {
	connect := func(name func(m *machine) string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) {
			address := name(a.host)
			if address == "" {
				return WallUntried, nil
			}
			if rest, ok := strings.CutPrefix(address, "@"); ok {
				address = "\x00" + rest
			}
			return a.raw(ctx, rawcall.ConnectUnix(address)...)
		}
	}
	abstract := connect(func(m *machine) string { return m.abstract })
	const topic = "sockets"
	return []Probe{
		{Name: "AbstractClosed", Topic: topic, What: "an abstract socket", Network: spec.NetworkNone, try: abstract},
		{Name: "AbstractOpened", Topic: topic, What: "an abstract socket", Network: spec.NetworkOpen, try: abstract},
		{Name: "SocketRun", Topic: topic, What: "a socket in `/run`, as D-Bus and Docker have", try: connect(func(m *machine) string { return m.socketRun })},
		{Name: "SocketTmp", Topic: topic, What: "a socket in `/tmp`", try: connect(func(m *machine) string { return m.socketTmp })},
		{Name: "SocketWorkdir", Topic: topic, What: "a socket in the workdir", try: connect(func(m *machine) string { return m.socketDir })},
	}
}

// ptraceSeize attaches to a process without stopping it; when the program ends it lets go.
const ptraceSeize = 0x4206

func seize(pid int) rawcall.Call {
	return rawcall.Call{Number: rawcall.Ptrace, Args: []rawcall.Arg{rawcall.Int(ptraceSeize), rawcall.Int(int64(pid))}}
}

func processProbes() []Probe {
	victim := func(script string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) {
			return a.works(ctx, script, strconv.Itoa(a.host.victim.Process.Pid))
		}
	}
	const topic = "processes"
	return []Probe{
		{Name: "SeeProcess", Topic: topic, What: "see a process of this user in `/proc`", try: victim(`grep -q sleep "/proc/$1/comm"`)},
		{Name: "ReadProcess", Topic: topic, What: "read its environment", try: victim(`cat "/proc/$1/environ" >/dev/null`)},
		{Name: "ReadProcessMemory", Topic: topic, What: "open its memory", try: victim(`: <"/proc/$1/mem"`)},
		{Name: "TraceProcess", Topic: topic, What: "attach to it with ptrace", try: func(ctx context.Context, a *attempt) (Verdict, error) {
			return a.raw(ctx, seize(a.host.victim.Process.Pid))
		}},
		{Name: "SignalProcess", Topic: topic, What: "end it by a signal", try: trySignal},
	}
}

// trySignal comes last of the probes on the victim: it is judged by whether that lives.
func trySignal(ctx context.Context, a *attempt) (Verdict, error) {
	r, err := a.sh(ctx, `kill -9 "$1"`, strconv.Itoa(a.host.victim.Process.Pid))
	if err != nil {
		return WallUntried, err
	}
	if !r.Success() {
		return WallStopped, nil
	}
	// A zombie until it is waited for: its memory is gone, and its command line with it.
	gone := within(ctx, long, func() bool {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(a.host.victim.Process.Pid) + "/cmdline")
		return err != nil || len(line) == 0
	})
	return openIf(gone), nil
}

func guestProbes() []Probe {
	guest := func(script string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) { return a.works(ctx, script, a.guest) }
	}
	const topic = "the guest"
	return []Probe{
		{Name: "ReadGuest", Topic: topic, What: "read its environment or its descriptors", try: guest(`cat "/proc/$1/environ" >/dev/null || : <"/proc/$1/fd/0" || ls "/proc/$1/fd/"`)},
		{Name: "ReadGuestMemory", Topic: topic, What: "open its memory", try: guest(`: <"/proc/$1/mem"`)},
		{Name: "ReplaceGuest", Topic: topic, What: "write to its program", try: guest(`: >>"/proc/$1/exe"`)},
		{Name: "TraceGuest", Topic: topic, What: "attach to it with ptrace", try: func(ctx context.Context, a *attempt) (Verdict, error) {
			pid, err := strconv.Atoi(a.guest)
			if err != nil {
				return WallUntried, err
			}
			return a.raw(ctx, seize(pid))
		}},
		{Name: "LimitGuest", Topic: topic, What: "change its limits", try: tryLimit},
		{Name: "EndGuest", Topic: topic, What: "end it by a signal", try: tryEnd},
	}
}

// tryLimit gives the guest the limit that it has.
func tryLimit(ctx context.Context, a *attempt) (Verdict, error) {
	pid, err := strconv.Atoi(a.guest)
	if err != nil {
		return WallUntried, err
	}
	const core, getPID = 4, 39
	limit := rawcall.Address(2) // 16 bytes, where the results of the last two calls are kept later
	return a.raw(
		ctx,
		rawcall.Call{Number: rawcall.LimitOf, Args: []rawcall.Arg{rawcall.Int(int64(pid)), rawcall.Int(core), rawcall.Int(0), limit}},
		rawcall.Call{Number: rawcall.LimitOf, Args: []rawcall.Arg{rawcall.Int(int64(pid)), rawcall.Int(core), limit}},
		rawcall.Call{Number: getPID},
		rawcall.Call{Number: getPID},
	)
}

// tryEnd sends the signal only where nothing promises that it arrives: at a guest that
// is not shielded it is enough that it may be sent.
func tryEnd(ctx context.Context, a *attempt) (Verdict, error) {
	if !a.caps.Shielded {
		return a.works(ctx, `kill -0 "$1"`, a.guest)
	}
	if _, err := a.sh(ctx, `kill -9 "$1"`, a.guest); err != nil {
		return WallOpen, nil // that there is no answer is the finding
	}
	return openIf(a.sb.Ping(ctx) != nil), nil
}

func kernelProbes() []Probe {
	works := func(script string) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) { return a.works(ctx, script) }
	}
	raw := func(calls ...rawcall.Call) trial {
		return func(ctx context.Context, a *attempt) (Verdict, error) { return a.raw(ctx, calls...) }
	}
	const (
		topic        = "the kernel"
		newNS        = 0x20000
		newUser      = 0x10000000
		private, all = 0x40000, 0x4000
	)
	return []Probe{
		{Name: "ReadSettings", Topic: topic, What: "read its settings in `/proc/sys`", try: works("cat /proc/sys/kernel/core_pattern >/dev/null")},
		// Each opens for writing and writes nothing.
		{Name: "WriteSettings", Topic: topic, What: "change a setting in `/proc/sys`", try: works(": >>/proc/sys/kernel/core_pattern")},
		{Name: "WriteSysrq", Topic: topic, What: "give it orders by `/proc/sysrq-trigger`", try: trySysrq},
		{Name: "WriteSys", Topic: topic, What: "change a setting in `/sys`", try: works(`for f in /sys/kernel/* /sys/kernel/*/*; do [ -f "$f" ] && { : >>"$f"; } 2>/dev/null && exit 0; done; exit 1`)},
		{Name: "OpenDisk", Topic: topic, What: "open a disk", try: tryDisk},
		// The kernel's log: a device that nobody needs.
		{Name: "MakeDevice", Topic: topic, What: "make a device and open it", try: raw(
			rawcall.Call{Number: rawcall.Mknod, Args: []rawcall.Arg{rawcall.String("berth-device"), rawcall.Int(syscall.S_IFCHR | 0o600), rawcall.Int(1<<8 | 11)}},
			rawcall.Call{Number: rawcall.Open, Args: []rawcall.Arg{rawcall.String("berth-device"), rawcall.Int(syscall.O_NONBLOCK)}, May: true},
			rawcall.Call{Number: rawcall.Unlink, Args: []rawcall.Arg{rawcall.String("berth-device")}},
			rawcall.Call{Number: rawcall.Dup, Args: []rawcall.Arg{rawcall.Result(1)}},
		)},
		{Name: "Mount", Topic: topic, What: "mount a file system", try: raw(
			rawcall.Call{Number: rawcall.Unshare, Args: []rawcall.Arg{rawcall.Int(newNS)}},
			rawcall.Call{Number: rawcall.Mount, Args: []rawcall.Arg{rawcall.Int(0), rawcall.String("/"), rawcall.Int(0), rawcall.Int(private | all)}},
			rawcall.Call{Number: rawcall.Mount, Args: []rawcall.Arg{rawcall.String("none"), rawcall.String("."), rawcall.String("tmpfs")}},
		)},
		{Name: "UserNamespace", Topic: topic, What: "make a user namespace, with all capabilities in it", try: raw(
			rawcall.Call{Number: rawcall.Unshare, Args: []rawcall.Arg{rawcall.Int(newUser)}},
		)},
		{Name: "ChangeRoot", Topic: topic, What: "change the root directory", try: raw(rawcall.Call{Number: rawcall.Chroot, Args: []rawcall.Arg{rawcall.String(".")}})},
		{Name: "IoUring", Topic: topic, What: "use io_uring, which passes by filters of system calls", try: raw(
			rawcall.Call{Number: rawcall.IoUring, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Bytes(make([]byte, 120))}},
		)},
		{Name: "Keyring", Topic: topic, What: "reach the user's keyring in it", try: tryKeyring},
		{Name: "Privileges", Topic: topic, What: "gain rights by a setuid program", try: works(`! grep -q '^NoNewPrivs:[[:space:]]*1' /proc/self/status`)},
		{Name: "Capabilities", Topic: topic, What: "hold a capability", try: works(`! grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status`)},
		{Name: "Terminal", Topic: topic, What: "type into the terminal of whoever started it", try: works(": >/dev/tty")},
	}
}

// trySysrq leaves alone what nothing is in the way of.
func trySysrq(ctx context.Context, a *attempt) (Verdict, error) {
	const name = "/proc/sysrq-trigger"
	if _, err := os.Stat(name); err != nil || a.caps.Isolation.Has(spec.IsolationNone) {
		return WallUntried, nil // this kernel has none, or it is all too easy
	}
	return a.works(ctx, ": >>"+name)
}

func tryDisk(ctx context.Context, a *attempt) (Verdict, error) {
	const find = `for d in /dev/*; do [ -b "$d" ] && { : <"$d"; } 2>/dev/null && exit 0; done; exit 1`
	devices, err := os.ReadDir("/dev")
	if err != nil {
		return WallUntried, err
	}
	for _, d := range devices {
		if d.Type()&(os.ModeDevice|os.ModeCharDevice) == os.ModeDevice {
			return a.works(ctx, find)
		}
	}
	return WallUntried, nil
}

// tryKeyring compares the keyring that a command reaches with the one of this process.
func tryKeyring(ctx context.Context, a *attempt) (Verdict, error) {
	const userKeyring = -4
	calls := []rawcall.Call{
		{Number: rawcall.KeyCtl, Args: []rawcall.Arg{rawcall.Int(0), rawcall.Int(userKeyring), rawcall.Int(0)}},
		{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Address(0), rawcall.Int(8)}},
	}
	r, err := a.program(ctx, calls...)
	if err != nil || r == nil {
		return WallUntried, err
	}
	own, err := a.host.ids(calls...)
	if err != nil {
		return WallUntried, nil // it is the kernel that has no keyrings
	}
	return openIf(r.Success() && serial(own) != 0 && serial(own) == serial(r.Stdout)), nil
}
