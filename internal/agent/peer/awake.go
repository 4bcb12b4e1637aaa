//go:build linux

package peer

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/proc"
)

// Awake lets the peer go on whenever it has been stopped, until the returned function
// is called. A relay that an engine put among the commands is theirs to signal: one that
// they kill is seen to be gone, and dialled again, but one that they stop keeps its
// connection and says nothing for ever. A peer outside of this pid namespace is left
// alone, and so is one of which the kernel gives no handle.
func Awake(conn *net.UnixConn) (release func()) {
	cred, pidfd, err := Cred(conn)
	if err != nil || pidfd < 0 {
		return func() {}
	}
	if cred.Pid <= 1 {
		unix.Close(pidfd)
		return func() {}
	}
	released, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for {
			select {
			case <-released:
				return
			case <-look.C:
			}
			if st, ok := proc.ReadStat(int(cred.Pid)); ok && st.Stopped() {
				_ = unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0) // it may have ended
			}
		}
	}()
	return func() {
		close(released)
		<-done
		unix.Close(pidfd)
	}
}
