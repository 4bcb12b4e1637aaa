package portcmd

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

// socketMode is that of a unix socket of this machine: it leads into a sandbox.
const socketMode = 0o600

// listenHere listens on an address of this machine. A socket that an earlier forward has
// left behind, which nobody serves, is replaced.
func (f *forwarder) listenHere(a address) (net.Listener, error) {
	if a.network != "unix" || strings.HasPrefix(a.text, "@") {
		return net.Listen(a.network, a.text)
	}
	l, err := listenAlone(a.text)
	if errors.Is(err, syscall.EADDRINUSE) && stale(a.text) {
		f.env.Note("forward: %s was left behind and is replaced", a.text)
		if err := os.Remove(a.text); err != nil {
			return nil, err
		}
		l, err = listenAlone(a.text)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(a.text, socketMode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// listenAlone listens on a socket that nobody else can reach.
func listenAlone(path string) (net.Listener, error) {
	defer withdraw()()
	return net.Listen("unix", path)
}

// stale reports whether a path is that of a socket on which nobody listens.
func stale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// cause gives a failure to listen on this machine its code.
func cause(err error) error {
	var coded *spec.Error
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, os.ErrPermission):
		return &spec.Error{Code: spec.CodePermission, Err: err}
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: err}
}

// acceptPause is how long a forward that lacks descriptors or memory waits for some.
const acceptPause = 100 * time.Millisecond

// passes reports whether accepting may go on after a failure: the connection was given up,
// or something is short that comes back.
func passes(err error) bool {
	for _, short := range []syscall.Errno{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, short) {
			return true
		}
	}
	return false
}
