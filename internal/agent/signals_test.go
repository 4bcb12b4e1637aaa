//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signalAll sends every signal to pid 1, with kill(2) or with sigqueue(3), which
// can say of any signal that it is a fault's.
func signalAll(how string) int {
	if os.Getpid() == 1 || !inOwnNamespace() {
		return 1
	}
	for n := 1; n <= 64; n++ {
		if how == "kill" {
			_ = unix.Kill(1, unix.Signal(n))
			continue
		}
		var info [128]byte
		const siQueue = -1
		*(*int32)(unsafe.Pointer(&info[0])) = int32(n)
		*(*int32)(unsafe.Pointer(&info[8])) = siQueue
		_, _, _ = syscall.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(n), uintptr(unsafe.Pointer(&info)))
	}
	fmt.Println("sent")
	return 0
}

// inOwnNamespace reports whether pid 1 is the guest of a test and not this machine's.
func inOwnNamespace() bool {
	data, err := os.ReadFile("/proc/1/cmdline")
	return err == nil && len(data) > 0 && containsArg(data, "berth-guest-reexec")
}

func containsArg(cmdline []byte, arg string) bool {
	start := 0
	for i, b := range cmdline {
		if b == 0 {
			if string(cmdline[start:i]) == arg {
				return true
			}
			start = i + 1
		}
	}
	return false
}

// blockSignals runs the program of args with signals blocked and ignored.
func blockSignals(args []string) int {
	runtime.LockOSThread()
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	var set unix.Sigset_t
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE, 40} {
		set.Val[0] |= 1 << (s - 1)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil); err != nil {
		return 1
	}
	fmt.Fprintln(os.Stderr, syscall.Exec(args[0], args, os.Environ()))
	return 1
}
