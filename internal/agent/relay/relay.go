//go:build linux

// Package relay joins two streams to a guest's socket: an engine starts it inside the place,
// among processes that may listen on a socket too.
package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/peer"
)

// Options say which guest is meant.
type Options struct {
	// Abstract or Path names its socket.
	Abstract, Path string
	// PID is the one that it must have; 0: any.
	PID int
}

// Run joins in and out to a guest's socket. The end of in is passed on, and what still
// comes from the guest is delivered; the end of the guest's stream ends it.
func Run(o Options, in io.Reader, out io.Writer) error {
	name := o.Path
	if o.Abstract != "" {
		name = "@" + o.Abstract
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return errors.New("no guest answers at its socket")
	}
	defer conn.Close()
	if err := checkListener(conn, o.PID); err != nil {
		return err
	}
	widen(in)
	widen(out)
	go func() {
		if copyAll(conn, in) == nil {
			_ = conn.CloseWrite()
			return
		}
		conn.Close()
	}()
	return copyAll(out, conn)
}

// relayPipeBytes is the size of the pipes to an engine: it reads in small pieces, and
// each full pipe costs a switch to it and back.
const relayPipeBytes = 1 << 20

// widen makes the pipe behind v larger, if it is one and the kernel lets us.
func widen(v any) {
	if f, ok := v.(*os.File); ok {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, relayPipeBytes)
	}
}

// checkListener refuses a listener with another pid. The credentials are those of
// the process that made the socket listen.
func checkListener(conn *net.UnixConn, pid int) error {
	cred, pidfd, err := peer.Cred(conn)
	if err != nil {
		return err
	}
	if pidfd >= 0 {
		unix.Close(pidfd)
	}
	if pid != 0 && int(cred.Pid) != pid {
		return fmt.Errorf("process %d listens on the guest's socket, not %d", cred.Pid, pid)
	}
	return nil
}

// copyAll is io.Copy without its detours, which are for files and sockets that a
// relay never has at both ends.
func copyAll(dst io.Writer, src io.Reader) error {
	buf := make([]byte, 256<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
