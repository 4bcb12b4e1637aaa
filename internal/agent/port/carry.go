//go:build linux

package port

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

const (
	// lastWords is how long a peer that takes nothing more is listened to, while the host
	// does not read what it says.
	lastWords = 10 * time.Second
	// silence is how long it may say nothing.
	silence = 30 * time.Second
	// sayTime is how long the host has to take the news of a reset; it learns of it in
	// any case.
	sayTime = time.Second
)

// inlet is what the host sends. One can wait for it without having memory for it.
type inlet struct {
	s     *wire.Stream
	first [1]byte
	full  bool
}

// wait returns when there is something to read.
func (in *inlet) wait() error {
	for !in.full {
		n, err := in.s.Read(in.first[:])
		if in.full = n > 0; !in.full && err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader.
func (in *inlet) Read(p []byte) (int, error) {
	if in.full && len(p) > 0 {
		p[0], in.full = in.first[0], false
		return 1, nil
	}
	return in.s.Read(p)
}

// carry carries bytes between a connection and the host until one of them has left. heard,
// unless it is nil, is closed once nobody else reads in.
func (v *Server) carry(conn duplex, s *wire.Stream, in *inlet, heard <-chan struct{}, chunk int) {
	sent := make(chan struct{})
	var deaf atomic.Bool // the peer takes nothing more
	go func() {
		defer close(sent)
		v.send(conn, s, chunk, &deaf)
	}()
	if heard != nil {
		<-heard
	}
	ended, refused := v.receive(conn, in)
	switch {
	case refused:
		deaf.Store(true)
		_ = conn.SetReadDeadline(time.Now().Add(silence))
		go func() { // a host that goes on sending does not wait, and that it leaves is noticed
			stream.Discard(s)
			conn.Close()
		}()
		words := time.NewTimer(lastWords)
		select {
		case <-sent:
		case <-words.C:
			stream.Abort(s)
		}
		words.Stop()
		<-sent
		s.Close() // says that nothing more is taken
	case ended:
		go func() {
			<-sent
			conn.Close() // both sides have ended
			s.Close()
		}()
		_ = in.wait() // until the host leaves
	default:
		abort(conn)
	}
	stream.Abort(s)
	conn.Close()
	<-sent
}

// receive carries what the host sends until the host has ended it, or has left without,
// or the peer has refused it.
func (v *Server) receive(conn duplex, in *inlet) (ended, refused bool) {
	data := wire.NewDataReader(in)
	for in.wait() == nil {
		buf := v.buffers.Get()
		n, err := data.Read(buf[:])
		if _, failed := conn.Write(buf[:n]); failed != nil {
			refused = true
		}
		v.buffers.Put(buf)
		switch {
		case refused:
			return false, true
		case err == io.EOF:
			_ = conn.CloseWrite()
			return true, false
		case err != nil:
			return false, false
		}
	}
	return false, false
}

// send carries what the peer sends until it has ended or the connection is broken, which
// it tells the host.
func (v *Server) send(conn duplex, s *wire.Stream, chunk int, deaf *atomic.Bool) {
	raw, err := conn.SyscallConn()
	for err == nil {
		var buf *[stream.ChunkBytes]byte
		var n int
		buf, n, err = v.read(raw)
		gone := false
		if n > 0 && deaf.Load() {
			_ = conn.SetReadDeadline(time.Now().Add(silence))
		}
		if n > 0 {
			_, failed := wire.WriteData(s, buf[:n], chunk)
			gone = failed != nil
		}
		if buf != nil {
			v.buffers.Put(buf)
		}
		switch {
		case gone:
			return
		case err == nil && n == 0:
			_ = wire.WriteEnd(s)
			return
		}
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) { // else it was closed here
		_ = s.SetWriteDeadline(time.Now().Add(sayTime))
		_ = wire.WriteMessage(s, &wire.Reply{Err: wire.FromError(&spec.Error{Code: spec.CodeUnavailable, Err: errno})})
		s.Close()
		conn.Close()
	}
}

// read reads from a socket into memory that is lent once there is something, or the end.
func (v *Server) read(raw syscall.RawConn) (buf *[stream.ChunkBytes]byte, n int, err error) {
	failed := raw.Read(func(fd uintptr) bool {
		if buf == nil {
			buf = v.buffers.Get()
		}
		for {
			n, err = unix.Read(int(fd), buf[:])
			switch err {
			case unix.EINTR:
				continue
			case unix.EAGAIN:
				v.buffers.Put(buf)
				buf = nil
				return false
			}
			return true
		}
	})
	if failed != nil {
		return buf, 0, failed
	}
	return buf, max(n, 0), err
}

// abort closes a connection so that its peer knows that not all has been sent, where
// there is a way to say it.
func abort(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	conn.Close()
}
