//go:build unix

package address

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// loginLimit bounds one attempt to log in.
	loginLimit = 20 * time.Second
	// logins is how often it is attempted while the host turns connections away.
	logins = 4
	// idleLimit is how long a connection that nobody uses is kept.
	idleLimit = 2 * time.Second
	// ready is what the far side says once it is there.
	ready = "berth: connected"
	// maxPreface is how much may come before that: a host's greetings.
	maxPreface = 64 << 10
)

// owner runs ssh and removes its socket after it, whatever has become of this program:
// ssh itself leaves it. A signal is for ssh, and not for what removes.
const owner = `trap : TERM HUP INT; d=$1; shift; "$@"; s=$?; trap "" TERM HUP INT; rm -f "$d/s"; rmdir "$d"; exit $s`

// tunnel is an SSH connection that is made when it is needed, through which a socket of
// the far side is reached by a socket of this one.
type tunnel struct {
	target, port, key, socket string

	turn chan struct{} // held by whoever looks at what follows
	live *login        // nil: none
}

// login is one run of ssh.
type login struct {
	local string
	stdin io.Closer
	pid   int
	ended chan struct{}
	words lastWords
	// What follows is looked at in turn.
	users int
	idle  *time.Timer
}

// dial connects to the socket of the far side.
func (t *tunnel) dial(ctx context.Context) (net.Conn, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-t.turn }()
	if t.live == nil || t.live.over() {
		l, err := t.logIn(ctx)
		if err != nil {
			return nil, err
		}
		t.live = l
	}
	l := t.live
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "unix", l.local)
	if err != nil {
		return nil, err
	}
	l.users++
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	return &tunnelled{UnixConn: conn.(*net.UnixConn), tunnel: t, login: l}, nil
}

// release counts a connection out. The last one leaves the login to end by itself.
func (t *tunnel) release(l *login) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	l.users--
	if l.users > 0 {
		return
	}
	l.idle = time.AfterFunc(idleLimit, func() {
		t.turn <- struct{}{}
		defer func() { <-t.turn }()
		if l.users == 0 {
			l.end()
			if t.live == l {
				t.live = nil
			}
		}
	})
}

// logIn runs ssh until its socket is there. A host that turns a connection away, as it
// does to some of many that come at once, is asked again.
func (t *tunnel) logIn(ctx context.Context) (*login, error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("engine at ssh://%s: there is no ssh program in PATH", t.target), Hint: "install openssh-client, or forward the engine's socket and name that with unix://"}
	}
	for i := 0; ; i++ {
		l, err := t.logInOnce(ctx, program)
		if err == nil {
			return l, nil
		}
		var turned *turnedAway
		if !errors.As(err, &turned) {
			return nil, err
		}
		if i+1 == logins {
			return nil, t.failed(turned.words)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50*time.Millisecond<<i + rand.N(100*time.Millisecond)):
		}
	}
}

// turnedAway is a host that did not even let ssh begin.
type turnedAway struct{ words string }

func (e *turnedAway) Error() string { return e.words }

func (t *tunnel) logInOnce(ctx context.Context, program string) (_ *login, err error) {
	dir, err := os.MkdirTemp("", "berth-ssh-")
	if err != nil {
		return nil, err
	}
	l := &login{local: filepath.Join(dir, "s"), ended: make(chan struct{})}
	cmd := exec.Command("/bin/sh", append([]string{"-c", owner, "sh", dir, program}, t.arguments(l.local)...)...)
	// A group of its own: an interrupt at the terminal is for this program, which may
	// have something left to say to the engine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &l.words
	stdin, in := cmd.StdinPipe()
	stdout, out := cmd.StdoutPipe()
	if err := errors.Join(in, out, cmd.Start()); err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	l.stdin, l.pid = stdin, cmd.Process.Pid
	said := make(chan bool, 1)
	go func() {
		said <- greeted(stdout)
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
		close(l.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, loginLimit)
	defer cancel()
	select {
	case ok := <-said:
		if ok {
			return l, nil
		}
		l.end()
		<-l.ended
		return nil, t.unsaid(l.words.last())
	case <-ctx.Done():
		l.end()
		<-l.ended
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("engine at ssh://%s: not logged in within %v", t.target, loginLimit), Hint: "see what takes so long by hand: " + t.byHand()}
	}
}

// unsaid is the error of a login that came to nothing.
func (t *tunnel) unsaid(words string) error {
	for _, w := range []string{"Connection refused", "Connection reset", "Connection closed"} {
		if strings.Contains(words, w) {
			return &turnedAway{words}
		}
	}
	return t.failed(words)
}

// arguments make ssh listen at local for connections to the far socket, and end with its
// standard input, which ends with this program.
func (t *tunnel) arguments(local string) []string {
	path := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
	args := []string{"-T", "-x", "-a", "-L", path.Replace(local) + ":" + path.Replace(t.socket)}
	for _, o := range []string{
		"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=10", "ServerAliveCountMax=3",
		// Not through somebody's shared connection, which would keep the socket.
		"ControlMaster=no", "ControlPath=none",
		"RemoteCommand=none", "StreamLocalBindMask=0177", "LogLevel=ERROR",
	} {
		args = append(args, "-o", o)
	}
	if t.key != "" {
		args = append(args, "-i", t.key, "-o", "IdentitiesOnly=yes")
	}
	if t.port != "" {
		args = append(args, "-p", t.port)
	}
	return append(args, "--", t.target, "echo '"+ready+"'; exec cat")
}

// greeted reports whether the far side says that it is there.
func greeted(r io.Reader) bool {
	lines := bufio.NewScanner(io.LimitReader(r, maxPreface))
	for lines.Scan() {
		if lines.Text() == ready {
			return true
		}
	}
	return false
}

// end has ssh end, and with it all that goes through it.
func (l *login) end() {
	l.stdin.Close()
	if !l.over() {
		_ = syscall.Kill(-l.pid, syscall.SIGTERM)
	}
}

func (l *login) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// tunnelled is one connection.
type tunnelled struct {
	*net.UnixConn
	tunnel *tunnel
	login  *login
	heard  bool // by the one reader
	once   sync.Once
}

// Read implements net.Conn. An end without a byte is an error that says whose it is.
func (c *tunnelled) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	c.heard = c.heard || n > 0
	if err == io.EOF && !c.heard {
		err = c.tunnel.nobody()
	}
	return n, err
}

// Close implements net.Conn.
func (c *tunnelled) Close() error {
	err := c.UnixConn.Close()
	c.once.Do(func() { go c.tunnel.release(c.login) })
	return err
}

// lastWords keeps the end of what a program says.
type lastWords struct {
	mu  sync.Mutex
	end []byte
}

// maxWords is how much of it is kept.
const maxWords = 2 << 10

// Write implements io.Writer.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = append(w.end, p...)
	w.end = slices.Clone(w.end[max(0, len(w.end)-maxWords):])
	return len(p), nil
}

// last returns the last line that is not empty.
func (w *lastWords) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.end))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
