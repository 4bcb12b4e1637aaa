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
// The rest is left to the runtime, which catches it and does nothing: to take a signal
// costs two switches between threads, and a guest is to start quickly.
func TakeSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(
		ch,
		// What ends a Go program, or stops it.
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGPIPE, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		// What the runtime takes for a fault of its own; and 32, which it lets be.
		syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSTKFLT, syscall.SIGSYS, syscall.Signal(32),
		// What a child would inherit if this process was started with it ignored.
		syscall.SIGCONT,
	)
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

// CloseInherited closes every descriptor above 2 that this process was started with,
// but for keep, which it marks close-on-exec: nothing of whoever started the guest
// is held by it or reaches a command. What was inherited is not close-on-exec, and
// what a Go program has opened itself is. Where /proc does not tell, they stay open
// here and are closed to commands.
func CloseInherited(keep int) error {
	names, err := readNames("/proc/self/fd")
	for _, name := range names {
		fd, ok := parsePID(name)
		if !ok || fd <= 2 || fd == keep {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	if err == nil {
		if keep > 2 {
			unix.CloseOnExec(keep)
		}
		return nil
	}
	if unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		return fmt.Errorf("inherited descriptors: %w", err)
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
