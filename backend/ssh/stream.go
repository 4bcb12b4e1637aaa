package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/spec"
)

// maxStderrBytes is how much of a remote command's stderr is kept for errors.
const maxStderrBytes = 4 << 10

// stream is a remote command: its stdin and stdout are the stream. Reads and
// writes are each for one goroutine at a time; Close may be called at any time
// and ends both at once, whether or not the far side still answers.
type stream struct {
	sess   *ssh.Session
	stdin  io.WriteCloser
	stderr *tail

	full, free chan []byte // read ahead, and given back
	cur        []byte      // the rest of the piece that is being read
	piece      []byte      // the whole of it
	readErr    error       // set before full is closed

	closed    chan struct{}
	closeOnce sync.Once
	release   func()

	exited chan struct{} // closed when the channel is
	exit   error         // what ssh.Session.Wait said
}

// exec runs command, a line for the login shell, and returns its stream. Where the
// connection turns out dead in the course of it, it is repeated on another: until
// its input is sent, no command of ours does anything.
func (p *pool) exec(ctx context.Context, command string) (*stream, error) {
	const attempts = 3
	for i := 1; ; i++ {
		s, err := p.execOnce(ctx, command)
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, errBroke) || i == attempts:
			return nil, err
		}
	}
}

var errBroke = errors.New("the connection to the host broke")

func (p *pool) execOnce(ctx context.Context, command string) (*stream, error) {
	sess, release, err := p.session(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{
		sess: sess, stderr: &tail{}, release: release,
		full: make(chan []byte, pieces), free: make(chan []byte, pieces),
		closed: make(chan struct{}), exited: make(chan struct{}),
	}
	sess.Stderr = s.stderr
	s.stdin, _ = sess.StdinPipe() // neither fails before Start
	stdout, _ := sess.StdoutPipe()
	if err := within(ctx, func() error { return sess.Start(command) }); err != nil {
		go func() { // on a dead line Close waits, too
			sess.Close()
			release()
		}()
		// The only refusal that SSH knows has no text but the command's.
		if strings.HasPrefix(err.Error(), "ssh: command ") {
			return nil, &spec.Error{Code: spec.CodePermission, Err: errors.New("the host runs no command for this user"), Hint: "see the restrictions of the key and of the user in the host's sshd_config"}
		}
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%w: %w", errBroke, err), Hint: "see the log of the host's sshd"}
	}
	go s.wait()
	go s.pump(stdout)
	return s, nil
}

// within runs f, which may wait for a dead line and takes no context. When ctx ends
// first, f is left behind and ends with the connection.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait collects the exit status and gives the channel's place back.
func (s *stream) wait() {
	s.exit = s.sess.Wait()
	s.sess.Close()
	close(s.exited)
	s.release()
}

const (
	pieces     = 2
	pieceBytes = 64 << 10
)

// pump reads ahead by a few pieces, so that a Read can end with Close: the
// channel's own Read ends only when the far side agrees.
func (s *stream) pump(stdout io.Reader) {
	defer close(s.full)
	for range pieces {
		s.free <- make([]byte, pieceBytes)
	}
	for {
		var buf []byte
		select {
		case buf = <-s.free:
		case <-s.closed:
			// Take what comes until the channel ends, so that its window never
			// holds up the far side's own end.
			_, _ = io.Copy(io.Discard, stdout)
			return
		}
		n, err := stdout.Read(buf[:pieceBytes])
		if n > 0 {
			s.full <- buf[:n] // never blocks: there are no more pieces than room
		}
		if err != nil {
			s.readErr = err
			return
		}
		if n == 0 {
			s.free <- buf
		}
	}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.cur) == 0 {
		select {
		case <-s.closed:
			return 0, io.ErrClosedPipe
		default:
		}
		if s.piece != nil {
			s.free <- s.piece
			s.piece = nil
		}
		select {
		case piece, ok := <-s.full:
			if !ok {
				return 0, s.readErr
			}
			s.piece, s.cur = piece, piece
		case <-s.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, s.cur)
	s.cur = s.cur[n:]
	return n, nil
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, io.ErrClosedPipe
	default:
		return s.stdin.Write(p)
	}
}

// CloseWrite ends the command's input.
func (s *stream) CloseWrite() error { return s.stdin.Close() }

// closeGrace is how long a closed channel may stay open on the far side before
// its place on the connection is given up as lost.
const closeGrace = 5 * time.Second

// Close ends the channel; sshd then closes the command's input and output.
func (s *stream) Close() error {
	s.closeOnce.Do(func() {
		close(s.closed)
		go func() {
			s.sess.Close() // may wait for a dead line
			select {
			case <-s.exited:
			case <-time.After(closeGrace):
				s.release()
			}
		}()
	})
	return nil
}

// status waits until the command has ended and returns its exit status. known is
// false if there is none: it died by a signal, or the connection broke.
func (s *stream) status(ctx context.Context) (code int, known bool, err error) {
	select {
	case <-ctx.Done():
		return 0, false, ctx.Err()
	case <-s.exited:
	}
	var exit *ssh.ExitError
	switch {
	case s.exit == nil:
		return 0, true, nil
	case errors.As(s.exit, &exit) && exit.Signal() == "":
		return exit.ExitStatus(), true, nil
	}
	return 0, false, nil
}

// strayWait is how long stray output is listened to.
const strayWait = 200 * time.Millisecond

// rest returns a little of what else the stream says within a moment, and closes it.
func (s *stream) rest() []byte {
	stop := time.AfterFunc(strayWait, func() { s.Close() })
	defer stop.Stop()
	text, _ := io.ReadAll(io.LimitReader(s, maxStrayBytes))
	return text
}

// complaint returns what the command has written to stderr, on one line, or "".
func (s *stream) complaint() string {
	return strings.Join(strings.Fields(s.stderr.String()), " ")
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-maxStderrBytes):]
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(t.buf) + len(p) - maxStderrBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
