package direct

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/procstat"
	"golang.org/x/sys/unix"
)

// ringEvery is how often a guest is told that does not hear yet: it is just starting.
const ringEvery = 5 * time.Millisecond

// dial makes a socket in the directory of a name and waits for the guest.
func (d *Dirs) dial(ctx context.Context, name string, pid int, starting bool) (net.Conn, error) {
	root, err := d.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	sweep(dir)
	began := procstat.Now()
	door, err := openDoor(dir)
	if err != nil {
		return nil, err
	}
	defer door.close()
	d.mu.Lock()
	depth := d.depth
	d.mu.Unlock()
	for deadline := time.Now().Add(firstLimit); !ring(door.dir); {
		ended := depth == 1 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
		if !starting || ended || time.Now().After(deadline) || engine.Pause(ctx, ringEvery) != nil {
			return nil, errNone
		}
	}
	return door.admit(ctx, func(peer int) bool { return isGuest(peer, pid, depth, began) })
}

// door is a socket in a container's directory.
type door struct {
	dir      *os.File
	name     string
	listener *net.UnixListener
}

// openDoor makes a socket to which whoever sees it can connect.
func openDoor(root *os.Root) (*door, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	d := &door{dir: dir, name: newName() + suffix}
	// By its descriptor the directory is the one that was opened, and its path is short.
	made := "." + d.name
	d.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), made), Net: "unix"})
	if err != nil {
		dir.Close()
		return nil, err
	}
	d.listener.SetUnlinkOnClose(false)
	err = unix.Fchmodat(int(dir.Fd()), made, 0o666, 0)
	if err == nil {
		err = unix.Renameat(int(dir.Fd()), made, int(dir.Fd()), d.name)
	}
	if err != nil {
		_ = unix.Unlinkat(int(dir.Fd()), made, 0)
		d.close()
		return nil, err
	}
	return d, nil
}

// close removes the socket.
func (d *door) close() {
	d.listener.Close()
	_ = unix.Unlinkat(int(d.dir.Fd()), d.name, 0)
	d.dir.Close()
}

// admit returns the first connection of a process that is the guest, and closes all others.
func (d *door) admit(ctx context.Context, isGuest func(pid int) bool) (net.Conn, error) {
	_ = d.listener.SetDeadline(time.Now().Add(limit))
	stop := context.AfterFunc(ctx, func() { _ = d.listener.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			return nil, errNone
		}
		cred, err := credentials(conn)
		if err == nil && isGuest(int(cred.Pid)) {
			return conn, nil
		}
		conn.Close()
	}
}

// credentials are those of whoever connected, or listens, at the other end, as they were then.
func credentials(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil {
		return nil, failed
	}
	return cred, err
}

// isGuest reports whether a peer is the first process of the container that an engine, itself
// so many pid namespaces deep, knows by a pid. A pid namespace inside of the container is one
// deeper. The pid was the same process's when it connected, as that began before the socket.
func isGuest(peer, pid, depth int, began uint64) bool {
	chain, err := pids(peer)
	if err != nil || len(chain) != depth+1 || chain[0] != peer || chain[depth-1] != pid || chain[depth] != 1 {
		return false
	}
	st, err := procstat.Read(peer)
	return err == nil && st.Ticks <= began
}

// pids are those that a process has, from the namespace of this program on inwards.
func pids(pid int) ([]int, error) {
	if pid <= 0 {
		return nil, errNone // of a namespace that cannot be seen from here
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil, err
	}
	var chain []int
	for line := range strings.Lines(string(data)) {
		// A process can name itself as it likes, but not with a newline: one is shown as \n.
		list, ok := strings.CutPrefix(line, "NSpid:")
		if !ok {
			continue
		}
		for field := range strings.FieldsSeq(list) {
			n, err := strconv.Atoi(field)
			if err != nil {
				return nil, err
			}
			chain = append(chain, n)
		}
	}
	if len(chain) == 0 || chain[0] != pid {
		return nil, errNone // a /proc of another namespace
	}
	return chain, nil
}
