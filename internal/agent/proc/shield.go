//go:build linux

package proc

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LastSignal is Linux's SIGRTMAX.
const LastSignal = 64

// TakeSignals makes every signal that can be caught harmless to this process. Go's
// runtime would end it on many of them, and an init is protected by the kernel only
// from what it does not handle. Commands are not affected: what is caught here is
// at its default in them, whatever this process inherited.
//
// SIGCHLD and SIGURG are left to the runtime, which ignores them: taking them would
// wake the process on every exit of a child and on every preemption.
func TakeSignals() <-chan os.Signal {
	var take []os.Signal
	for n := syscall.Signal(1); n <= LastSignal; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG:
		default:
			take = append(take, n)
		}
	}
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, take...)
	if os.Getpid() == 1 {
		dropFaultSignals()
	}
	return ch
}

// dropFaultSignals gives the signals of a fault back to the kernel. The runtime
// takes one that was queued with sigqueue(3) for a real fault and panics; for an
// init at the default disposition the kernel drops whatever comes from inside its
// namespace, and a real fault ends it either way. 32 and 33 are those that libc
// keeps to itself.
func dropFaultSignals() {
	var byDefault [64]byte // a zero struct sigaction, with room for any layout
	const sigsetBytes = 8
	for _, n := range []syscall.Signal{
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS, 32, 33,
	} {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&byDefault)), 0, sigsetBytes, 0, 0)
	}
}

// ClearSignalMask starts the program again, with environ, with an empty signal mask if it was
// started with signals blocked: the runtime remembers the mask that it began with
// and gives it to every child. The signals that the runtime itself unblocks at its
// start (SIGCHLD, SIGPROF and those of faults) cannot be seen here.
func ClearSignalMask(environ []string) error {
	runtime.LockOSThread() // a mask belongs to a thread, and exec keeps the caller's
	defer runtime.UnlockOSThread()
	var empty, old, now unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &empty, &old); err != nil {
		return fmt.Errorf("signal mask: %w", err)
	}
	if old == empty {
		return nil
	}
	// Without this look at the result, a kernel that refuses would make a loop.
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, nil, &now); err != nil || now != empty {
		return fmt.Errorf("signal mask: signals stay blocked")
	}
	return fmt.Errorf("start again with an empty signal mask: %w", syscall.Exec("/proc/self/exe", os.Args, environ))
}

// Hide keeps other processes of the same user from looking into this one.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	return nil
}

// SealDescriptors marks every descriptor above 2 close-on-exec, so that nothing of
// whoever started the guest reaches a command.
func SealDescriptors() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	names, err := readNames("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("inherited descriptors: %w", err)
	}
	for _, name := range names {
		if fd, ok := parsePID(name); ok && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// AdoptOrphans makes this process the parent of every orphan below it; an init is
// that anyway.
func AdoptOrphans() error {
	if os.Getpid() == 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("child subreaper: %w", err)
	}
	return nil
}

// OpenNull opens /dev/null and makes sure that it is the device: it stands in for
// every stream that a command is not given.
func OpenNull() (*os.File, error) {
	f, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		f.Close()
		return nil, fmt.Errorf("/dev/null is not the null device")
	}
	return f, nil
}
