package begin

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls fn on a thread that nobody else uses, before or after.
func OnOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			fn()
			return // still locked: the thread ends with the goroutine
		}
		// The first thread never ends, and is what others see of this program. While it
		// is held here, the goroutine gets another one.
		OnOwnThread(fn)
		runtime.UnlockOSThread()
	}()
	<-done
}

// EmptyBoundingSet leaves what the calling thread starts its capabilities, and no way to
// get one that it has given up. A guest that becomes an ordinary user gives up the set
// too; but a capability and a thread at a time, which takes long. So what fails is left
// to the guest.
func EmptyBoundingSet() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) != nil {
		return
	}
	for i := range sets {
		sets[i].Inheritable = sets[i].Permitted // else an exec would not keep them
	}
	if unix.Capset(&header, &sets[0]) != nil {
		return
	}
	for n := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0) == nil; n++ {
	}
}
