package portcmd

import (
	"io"
	"net"
	"sync"
)

// join carries bytes between two connections until both sides have ended, each by itself.
// What breaks one is a reset of the other.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			to := &target{Conn: way[0]}
			_, err := io.Copy(to, way[1])
			switch {
			case to.failed: // it may still have something to say
			case err != nil:
				reset(a)
				reset(b)
			default:
				_ = closeWrite(way[0])
			}
		})
	}
	both.Wait()
	a.Close()
	b.Close()
}

// target remembers whether it was the writing that failed.
type target struct {
	net.Conn
	failed bool
}

func (t *target) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	t.failed = t.failed || err != nil
	return n, err
}

// reset closes a connection so that its other side knows that something is missing.
func reset(conn net.Conn) {
	if l, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = l.SetLinger(0)
	}
	conn.Close()
}
