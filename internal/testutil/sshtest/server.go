//go:build unix

package sshtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// SkipVariable names the environment variable that skips the tests that need sshd
// when its value is 1.
const SkipVariable = "BERTH_TEST_SKIP_SSH"

// Options modify Start.
type Options struct {
	// Config holds lines for the head of sshd_config, where the first value of a
	// keyword wins: "MaxSessions 2".
	Config []string
	// HostKeys are the types of the server's keys; nil: ed25519.
	HostKeys []string
	// Known are the types of the host keys that KnownHosts lists; nil: all.
	Known []string
}

// Server is an sshd that runs until the test ends.
type Server struct {
	// Addr is host:port on the loopback interface, User the account that may
	// log in: the one that runs the test.
	Addr, User string
	// KeyFile is the private key that the server accepts.
	KeyFile string
	// KnownHosts lists the server's host keys under Addr.
	KnownHosts string
	// Home is HOME on the far side: empty, so that no start-up file of the
	// account's login shell has a say in the test.
	Home string
	// Dir holds all of the above, and room for the test's own files.
	Dir string

	known []string // host key types in known_hosts
	log   *logBuffer
}

// Start starts a server and ends it with the test. A machine without sshd fails
// the test, unless the skip variable says otherwise.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	sshd := lookup(tb)
	s := &Server{Dir: tb.TempDir(), log: &logBuffer{}, known: o.Known}
	s.KeyFile = filepath.Join(s.Dir, "id_client")
	s.KnownHosts = filepath.Join(s.Dir, "known_hosts")
	s.Home = filepath.Join(s.Dir, "home")
	if err := os.Mkdir(s.Home, 0o700); err != nil {
		tb.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		tb.Fatal(err)
	}
	s.User = me.Username
	NewKey(tb, s.KeyFile, "ed25519", "")
	if o.HostKeys == nil {
		o.HostKeys = []string{"ed25519"}
	}
	if s.known == nil {
		s.known = o.HostKeys
	}
	for _, kind := range o.HostKeys {
		NewKey(tb, s.hostKey(kind), kind, "")
	}
	copyFile(tb, s.KeyFile+".pub", filepath.Join(s.Dir, "authorized_keys"))
	if os.Geteuid() == 0 {
		// sshd refuses to start without its privilege separation directory,
		// which a service manager makes as a rule.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	const attempts = 5 // the free port may be taken before sshd binds it
	for i := 1; ; i++ {
		err := s.serve(tb, sshd, o)
		if err == nil {
			break
		}
		if i == attempts {
			tb.Fatalf("sshd does not start: %v\n%s", err, s.Log())
		}
	}
	s.writeKnownHosts(tb, s.Addr)
	return s
}

// Log returns what the server has logged so far.
func (s *Server) Log() string { return s.log.String() }

// HostKey returns the path of the server's private key of a type.
func (s *Server) HostKey(kind string) string { return s.hostKey(kind) }

func (s *Server) hostKey(kind string) string { return filepath.Join(s.Dir, "host_"+kind) }

// AlsoKnownAs lists the server's host keys under one more address: a proxy's.
func (s *Server) AlsoKnownAs(tb testing.TB, addr string) {
	tb.Helper()
	s.writeKnownHosts(tb, addr)
}

func (s *Server) writeKnownHosts(tb testing.TB, addr string) {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	var lines bytes.Buffer
	for _, kind := range s.known {
		pub, err := os.ReadFile(s.hostKey(kind) + ".pub")
		if err != nil {
			tb.Fatal(err)
		}
		fields := strings.Fields(string(pub))
		fmt.Fprintf(&lines, "[%s]:%s %s %s\n", host, port, fields[0], fields[1])
	}
	f, err := os.OpenFile(s.KnownHosts, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = f.Write(lines.Bytes())
	if err := errors.Join(err, f.Close()); err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) config(o Options, port int) string {
	lines := slices.Clone(o.Config)
	for _, kind := range o.HostKeys {
		lines = append(lines, "HostKey "+s.hostKey(kind))
	}
	lines = append(lines,
		"ListenAddress 127.0.0.1",
		"Port "+strconv.Itoa(port),
		"AuthorizedKeysFile "+filepath.Join(s.Dir, "authorized_keys"),
		"SetEnv HOME="+s.Home,
		"PidFile none",
		"StrictModes no", // the temporary directory's parents are not ours
		"UsePAM no",
		"PermitRootLogin prohibit-password",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"MaxStartups 100",
		"LogLevel VERBOSE",
	)
	return strings.Join(lines, "\n") + "\n"
}

// serve starts sshd and returns when it answers.
func (s *Server) serve(tb testing.TB, sshd string, o Options) error {
	port := freePort(tb)
	file := filepath.Join(s.Dir, "sshd_config")
	if err := os.WriteFile(file, []byte(s.config(o, port)), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(sshd, "-D", "-e", "-f", file)
	cmd.Stderr = s.log
	// A test binary that is killed takes its server along.
	cmd.SysProcAttr = sysProcAttr()
	// Connections inherit stderr: do not wait for them to end.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(20 * time.Second); ; {
		if answers(addr) {
			break
		}
		select {
		case <-ended:
			return errors.New("it has ended")
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			return errors.New("it does not answer")
		}
	}
	s.Addr = addr
	tb.Cleanup(func() { stop(cmd.Process.Pid, ended) })
	return nil
}

// stop ends the server and the processes that serve its connections.
func stop(pid int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	default:
	}
	children := childrenOf(pid)
	_ = syscall.Kill(pid, syscall.SIGTERM)
	for _, c := range children {
		c.kill(syscall.SIGTERM)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		_ = syscall.Kill(pid, syscall.SIGKILL)
		<-ended
	}
}

func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	var head [4]byte
	_, err = io.ReadFull(c, head[:])
	return err == nil && string(head[:]) == "SSH-"
}

func freePort(tb testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func lookup(tb testing.TB) string {
	tb.Helper()
	if os.Getenv(SkipVariable) == "1" {
		tb.Skip(SkipVariable + " is set")
	}
	for _, name := range []string{"sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		// sshd re-executes itself and insists on an absolute path.
		if p, err := exec.LookPath(name); err == nil && filepath.IsAbs(p) {
			return p
		}
	}
	tb.Fatal("there is no sshd: install the Debian package openssh-server, or set " + SkipVariable + "=1")
	return ""
}

// NewKey makes a key pair at path and path.pub. An empty passphrase leaves the
// private key unencrypted.
func NewKey(tb testing.TB, path, kind, passphrase string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := []string{"-q", "-t", kind, "-N", passphrase, "-C", "berth-test", "-f", path}
	if kind == "rsa" {
		args = append(args, "-b", "2048")
	}
	if out, err := exec.CommandContext(ctx, "ssh-keygen", args...).CombinedOutput(); err != nil {
		tb.Fatalf("ssh-keygen: %v: %s", err, out)
	}
}

func copyFile(tb testing.TB, from, to string) {
	tb.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// logBuffer keeps the last part of the server's log.
type logBuffer struct {
	mu  sync.Mutex
	buf []byte
}

const maxLog = 256 << 10

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if over := len(l.buf) - maxLog; over > 0 {
		l.buf = append(l.buf[:0], l.buf[over:]...)
	}
	return len(p), nil
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}
