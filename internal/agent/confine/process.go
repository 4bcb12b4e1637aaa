//go:build linux

package confine

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changesProcess reports whether a call is one of those that change how a process runs,
// and name it by a number.
func (a *abi) changesProcess(number uint32) bool {
	return number == a.prlimit || a.schedules(number)
}

// schedules reports whether it is about the processor or the disk.
func (a *abi) schedules(number uint32) bool {
	return number == a.setpriority || number == a.ioprioSet || slices.Contains(a.scheduled, number)
}

// process decides about such a call. A caller may name itself, by its own number or by that
// of its process: these mean what they mean as long as it waits. What any other number
// means may change before the kernel looks, until it is the guest: so nobody sets the
// limits of another, and what another gets of the processor the guest sets itself, at once
// after it has looked who that is.
func (g *gate) process(c *call, a *abi) {
	who := uint32(c.args[0])
	switch uint32(c.number) {
	case a.setpriority, a.ioprioSet:
		one := uint32(prioProcess)
		if uint32(c.number) == a.ioprioSet {
			one = ioprioProcess
		}
		if uint32(c.args[0]) != one {
			g.queue.reply(c.id, unix.EPERM)
			return
		}
		who = uint32(c.args[1])
	}
	if who == c.tid {
		g.queue.letThrough(c.id)
		return
	}
	if leader, err := leaderOf(int(c.tid)); err == nil && who == uint32(leader) {
		g.queue.letThrough(c.id)
		return
	}
	if !a.schedules(uint32(c.number)) {
		g.queue.reply(c.id, unix.EPERM)
		return
	}
	g.queue.reply(c.id, g.schedule(c, a, who))
}

// schedule makes a call about the processor or the disk for its caller.
func (g *gate) schedule(c *call, a *abi, who uint32) syscall.Errno {
	// The numbers of the guest's own interface: all of them take the same arguments, and
	// what is in memory looks the same.
	own := abis[runtime.GOARCH][0]
	number, at, pointed := uint32(c.number), -1, uintptr(0)
	switch number {
	case a.setpriority:
		number = own.setpriority
	case a.ioprioSet:
		number = own.ioprioSet
	default:
		kind := slices.Index(a.scheduled, number)
		number = own.scheduled[kind]
		var size int
		var errno syscall.Errno
		if at, size, errno = scheduling(c, kind); errno != 0 {
			return errno
		}
		memory, err := copied(c, c.args[at], size)
		if err != nil {
			return errnoOf(err)
		}
		var pin runtime.Pinner // it is handed on as a number
		pin.Pin(&memory[0])
		defer pin.Unpin()
		pointed = uintptr(unsafe.Pointer(&memory[0]))
	}
	var st unix.Stat_t
	switch task := strconv.FormatUint(uint64(who), 10); {
	case unix.Stat("/proc/self/task/"+task, &st) == nil:
		return unix.EPERM // the guest
	case unix.Stat("/proc/"+task, &st) != nil:
		return unix.ESRCH
	case !g.queue.waits(c.id):
		return unix.EINTR // nobody hears it
	}
	args := [3]uintptr{uintptr(c.args[0]), uintptr(c.args[1]), uintptr(c.args[2])}
	if at >= 0 {
		args[at] = pointed
	}
	_, _, errno := unix.Syscall6(uintptr(number), args[0], args[1], args[2], uintptr(g.pass[0]), uintptr(g.pass[1]), uintptr(g.pass[2]))
	return errno
}

// The calls of abi.scheduled by their places, and what they point to.
const (
	setParam = iota
	setScheduler
	setAffinity
	setAttr

	paramBytes = 4
	maskBytes  = 1024 // of the 8,192 processors that a kernel can be made for
	attrLeast  = 48
	attrMost   = 4096
)

// scheduling says which argument of a call points to memory, and to how many bytes.
func scheduling(c *call, kind int) (at, size int, errno syscall.Errno) {
	switch kind {
	case setParam:
		return 1, paramBytes, 0
	case setScheduler:
		return 2, paramBytes, 0
	case setAffinity:
		c.args[1] = min(uint64(uint32(c.args[1])), maskBytes)
		if c.args[1] == 0 {
			return 0, 0, unix.EINVAL // no processor
		}
		return 2, int(c.args[1]), 0
	}
	head, err := copied(c, c.args[1], 4) // the size that the structure has
	if err != nil {
		return 0, 0, errnoOf(err)
	}
	size = int(binary.NativeEndian.Uint32(head))
	switch {
	case size == 0:
		return 1, attrLeast, 0
	case size < attrLeast || size > attrMost:
		return 0, 0, unix.E2BIG
	}
	return 1, size, 0
}
