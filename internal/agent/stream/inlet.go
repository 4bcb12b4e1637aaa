//go:build linux

package stream

import (
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/wire"
)

// Inlet carries bytes from a host to the standard input of a command. It belongs to
// the command: a host that lost its connection goes on where the inlet says.
type Inlet struct {
	pipe    *os.File
	raw     syscall.RawConn
	buffers *Buffers
	turn    chan struct{} // held by the stream that is being served
	done    chan struct{} // closed when the command takes no more

	mu      sync.Mutex
	taken   int64        // written to the pipe
	current *wire.Stream // the stream that is being served
	closed  bool
}

// NewInlet takes over the write end of a pipe, which must be non-blocking.
func NewInlet(pipe *os.File, buffers *Buffers) (*Inlet, error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Inlet{pipe: pipe, raw: raw, buffers: buffers, turn: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// Watch closes the inlet when nobody can read the pipe any more, whether or not
// there is anything to write.
func (in *Inlet) Watch() {
	_ = in.raw.Read(func(fd uintptr) bool {
		state := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(state, 0)
		return err == nil && n > 0 && state[0].Revents&unix.POLLERR != 0
	})
	in.Close()
}

// Close ends the command's input. It is idempotent.
func (in *Inlet) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		close(in.done)
		in.pipe.Close()
	}
}

// Receive serves one data stream: it says how much has been taken, writes what comes
// to the pipe and answers once more when the command takes no more. It returns
// early when the stream is cut or another one has taken its place.
func (in *Inlet) Receive(s *wire.Stream) {
	in.displace(s)
	defer func() { <-in.turn }()
	in.mu.Lock()
	taken := in.taken
	in.mu.Unlock()
	if wire.WriteMessage(s, &wire.Reply{Offset: taken}) != nil {
		return
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-in.done:
			_ = s.SetReadDeadline(past)
		case <-stop:
		}
	}()
	over := in.copy(s)
	close(stop)
	<-stopped
	if !over {
		return
	}
	in.mu.Lock()
	taken = in.taken
	in.mu.Unlock()
	_ = s.SetReadDeadline(time.Time{}) // the caller reads to the end
	_ = wire.WriteMessage(s, &wire.Reply{Offset: taken})
}

// displace makes s the stream that is served, after the one before it has stopped.
func (in *Inlet) displace(s *wire.Stream) {
	in.mu.Lock()
	if in.current != nil {
		_ = in.current.SetReadDeadline(past)
		_ = in.pipe.SetWriteDeadline(past)
	}
	in.current = s
	in.mu.Unlock()
	in.turn <- struct{}{}
	_ = in.pipe.SetWriteDeadline(time.Time{})
}

// copy writes what s brings to the pipe and reports whether the input is over: by
// its end, or because the command takes no more.
func (in *Inlet) copy(s *wire.Stream) bool {
	buf := in.buffers.Get()
	defer in.buffers.Put(buf)
	data := wire.NewDataReader(s)
	for {
		n, err := data.Read(buf[:])
		if n > 0 {
			written, werr := in.pipe.Write(buf[:n])
			in.mu.Lock()
			in.taken += int64(written)
			displaced := in.current != s
			in.mu.Unlock()
			if displaced {
				return false
			}
			if werr != nil {
				in.Close()
			}
		}
		switch {
		case err == io.EOF:
			in.Close()
			return true
		case in.over():
			return true
		case err != nil:
			return false
		}
	}
}

func (in *Inlet) over() bool {
	select {
	case <-in.done:
		return true
	default:
		return false
	}
}
