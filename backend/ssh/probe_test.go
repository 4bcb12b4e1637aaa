//go:build unix

package ssh_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/agent"

	gossh "golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// options are those that log in to s.
func options(s *sshtest.Server) ssh.Options {
	return ssh.Options{Addr: s.Addr, User: s.User, KeyFiles: []string{s.KeyFile}, KnownHostsFiles: []string{s.KnownHosts}}
}

func probe(t *testing.T, o ssh.Options) (spec.Caps, error) {
	t.Helper()
	d, err := ssh.New(o)
	if err != nil {
		return spec.Caps{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.Probe(ctx)
}

// refusal is what a person gets to see when a host cannot be used.
type refusal struct {
	code spec.Code
	text string // a part of the message
	hint string // a part of the hint
}

func (want refusal) check(t *testing.T, err error) {
	t.Helper()
	if got := spec.CodeOf(err); got != want.code {
		t.Fatalf("code %q, want %q: %v", got, want.code, err)
	}
	if !strings.Contains(err.Error(), want.text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("message %q, want one line with %q", err, want.text)
	}
	if hint := spec.HintOf(err); !strings.Contains(hint, want.hint) || hint == "" {
		t.Errorf("hint %q, want one with %q", hint, want.hint)
	}
}

// Probe says what the host is and what cannot be enforced there.
func TestProbe(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	c, err := probe(t, options(s))
	if err != nil {
		t.Fatal(err)
	}
	if c.Backend != "ssh" || c.OS != "linux" || c.Arch == "" || !c.Keyed || !c.Resume {
		t.Errorf("caps %+v", c)
	}
	for _, asked := range []spec.Spec{
		{Isolation: spec.IsolationGuard},
		{Isolation: spec.IsolationStrict},
		{Network: spec.NetworkNone},
		{Image: "busybox"},
		{Limits: spec.Limits{MemoryBytes: 1}},
		{Hardening: spec.Hardening{ReadOnlyRoot: true}},
		{WritableRoots: []string{"/x"}},
	} {
		if err := c.Check(&asked); !errors.Is(err, spec.ErrUnsupported) {
			t.Errorf("Check(%+v) = %v, want unsupported", asked, err)
		}
	}
}

// The host key is always checked; an unknown, a changed and a revoked one are told
// apart, each with its remedy.
func TestHostKeyRefusals(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{HostKeys: []string{"ed25519", "rsa"}})
	other := filepath.Join(t.TempDir(), "other")
	sshtest.NewKey(t, other, "ed25519", "")
	host, port, _ := net.SplitHostPort(s.Addr)
	line := func(marker, keyFile string) string {
		pub, err := os.ReadFile(keyFile + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(marker+" ["+host+"]:"+port+" "+string(pub)) + "\n"
	}
	known := func(lines ...string) []string {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{file}
	}
	for _, tc := range []struct {
		name  string
		files []string
		want  refusal
	}{
		{"no file", []string{filepath.Join(t.TempDir(), "absent")}, refusal{spec.CodePermission, "host key unknown", "ssh-keyscan -p " + port + " " + host}},
		{"empty file", known(), refusal{spec.CodePermission, "host key unknown", "ssh-keyscan"}},
		{"another key", known(line("", other)), refusal{spec.CodePermission, "host key changed", "ssh-keygen -f "}},
		{"revoked", known(line("", s.HostKey("ed25519")), line("@revoked", s.HostKey("ed25519"))), refusal{spec.CodePermission, "revoked", "new key"}},
		{"malformed", known("[::bad"), refusal{spec.CodeInvalid, "known hosts", "correct the line"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(s)
			o.KnownHostsFiles = tc.files
			_, err := probe(t, o)
			tc.want.check(t, err)
		})
	}
	// A host whose listed key is of a type that it no longer has.
	t.Run("another type", func(t *testing.T) {
		ecdsa := filepath.Join(t.TempDir(), "ecdsa")
		sshtest.NewKey(t, ecdsa, "ecdsa", "")
		o := options(s)
		o.KnownHostsFiles = known(line("", ecdsa))
		_, err := probe(t, o)
		refusal{spec.CodePermission, "host key changed", "ssh-keygen"}.check(t, err)
	})
	// A host that has more keys than known_hosts lists is not taken for a changed
	// one: it is asked for the one that is listed.
	for _, kind := range []string{"rsa", "ed25519"} {
		t.Run("lists only "+kind, func(t *testing.T) {
			o := options(s)
			o.KnownHostsFiles = known(line("", s.HostKey(kind)))
			if _, err := probe(t, o); err != nil {
				t.Error(err)
			}
		})
	}
}

// A host certificate is accepted where known_hosts names its authority, although the
// host has a plain key of the same type.
func TestHostCertificate(t *testing.T) {
	dir := t.TempDir()
	ca, key := filepath.Join(dir, "ca"), filepath.Join(dir, "host")
	sshtest.NewKey(t, ca, "ed25519", "")
	sshtest.NewKey(t, key, "ed25519", "")
	sign := exec.Command("ssh-keygen", "-q", "-s", ca, "-I", "test", "-h", "-n", "127.0.0.1", key+".pub")
	if out, err := sign.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	s := sshtest.Start(t, sshtest.Options{Config: []string{"HostKey " + key, "HostCertificate " + key + "-cert.pub"}, HostKeys: []string{"rsa"}})
	pub, err := os.ReadFile(ca + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	file := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(file, []byte("@cert-authority [127.0.0.1]:"+port+" "+string(pub)), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(s)
	o.KnownHostsFiles = []string{file}
	if _, err := probe(t, o); err != nil {
		t.Error(err)
	}
}

// Every way in which a login can fail is one line with a cause, and a hint.
func TestLoginRefusals(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	dir := t.TempDir()
	stranger, locked, noKey := filepath.Join(dir, "stranger"), filepath.Join(dir, "locked"), filepath.Join(dir, "nokey")
	sshtest.NewKey(t, stranger, "ed25519", "")
	sshtest.NewKey(t, locked, "ed25519", "secret")
	if err := os.WriteFile(noKey, []byte("not a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*ssh.Options)
		want   refusal
	}{
		{"stranger's key", func(o *ssh.Options) { o.KeyFiles = []string{stranger} }, refusal{spec.CodePermission, "refuses to log in", "ssh-copy-id -p"}},
		{"no such user", func(o *ssh.Options) { o.User = "nobody-at-all" }, refusal{spec.CodePermission, "nobody-at-all", "ssh-copy-id"}},
		{"locked key", func(o *ssh.Options) { o.KeyFiles = []string{locked} }, refusal{spec.CodePermission, "passphrase", "ssh-add " + locked}},
		{"absent key", func(o *ssh.Options) { o.KeyFiles = []string{filepath.Join(dir, "absent")} }, refusal{spec.CodeInvalid, "no such file", "private key"}},
		{"no key in the file", func(o *ssh.Options) { o.KeyFiles = []string{noKey} }, refusal{spec.CodeInvalid, noKey, "private key"}},
		{"no agent", func(o *ssh.Options) { o.AgentSocket = filepath.Join(dir, "agent") }, refusal{spec.CodeUnavailable, "ssh agent", "agent"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := options(s)
			tc.change(&o)
			_, err := probe(t, o)
			tc.want.check(t, err)
		})
	}
}

// A key with a passphrase is used through the agent that holds it.
func TestAgent(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	keyring := agent.NewKeyring()
	data, err := os.ReadFile(s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	key, err := gossh.ParseRawPrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = agent.ServeAgent(keyring, c)
				c.Close()
			}()
		}
	}()
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.WriteFile(locked, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-p", "-N", "secret", "-f", locked).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	o := options(s)
	o.AgentSocket = socket
	o.KeyFiles = []string{locked}
	if _, err := probe(t, o); err != nil {
		t.Errorf("a locked key that the agent holds: %v", err)
	}
}

// A host that cannot be reached says why, and never hangs beyond the dial timeout.
func TestUnreachable(t *testing.T) {
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serve(c)
			}
		}()
		return l.Addr().String()
	}
	key := filepath.Join(t.TempDir(), "key")
	sshtest.NewKey(t, key, "ed25519", "")
	closed := listen(func(c net.Conn) { c.Close() })
	silent := listen(func(c net.Conn) { t.Cleanup(func() { c.Close() }) })
	web := listen(func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		c.Close()
	})
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := nobody.Addr().String()
	nobody.Close()
	for _, tc := range []struct {
		name, addr string
		want       refusal
	}{
		{"refused", refused, refusal{spec.CodeUnavailable, "connection refused", "sshd"}},
		{"hangs up", closed, refusal{spec.CodeUnavailable, "hangs up", "sshd"}},
		{"silent", silent, refusal{spec.CodeUnavailable, "no answer", "firewall"}},
		{"a web server", web, refusal{spec.CodeUnavailable, "", "ssh"}},
		{"no such name", "no-such-host.invalid", refusal{spec.CodeUnavailable, "cannot resolve", "getent hosts no-such-host.invalid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Only silence takes the whole time; on a busy machine the rest takes some.
			timeout := 30 * time.Second
			if tc.addr == silent {
				timeout = 4 * time.Second
			}
			begin := time.Now()
			_, err := probe(t, ssh.Options{Addr: tc.addr, User: "x", KeyFiles: []string{key}, DialTimeout: timeout, KnownHostsFiles: []string{"/nonexistent"}})
			tc.want.check(t, err)
			if took := time.Since(begin); took > timeout+15*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// The end of the caller's context is the context's error, at once.
func TestDialCancelled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	key := filepath.Join(t.TempDir(), "key")
	sshtest.NewKey(t, key, "ed25519", "")
	d, err := ssh.New(ssh.Options{Addr: l.Addr().String(), User: "x", KeyFiles: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := d.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Probe = %v, want the context's error", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// Options that cannot be meant are refused before anything is dialled.
func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    ssh.Options
		code spec.Code
	}{
		{"no address", ssh.Options{}, spec.CodeInvalid},
		{"user in the address", ssh.Options{Addr: "me@host"}, spec.CodeInvalid},
		{"bad port", ssh.Options{Addr: "host:http"}, spec.CodeInvalid},
		{"port 0", ssh.Options{Addr: "host:0"}, spec.CodeInvalid},
		{"relative remote directory", ssh.Options{Addr: "host", RemoteDir: "~/berth"}, spec.CodeInvalidPath},
		{"NUL in the remote directory", ssh.Options{Addr: "host", RemoteDir: "/a\x00b"}, spec.CodeInvalidPath},
		{"negative timeout", ssh.Options{Addr: "host", DialTimeout: -1}, spec.CodeInvalid},
	} {
		if _, err := ssh.New(tc.o); spec.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want code %s", tc.name, err, tc.code)
		}
	}
	for _, addr := range []string{"host", "host:2222", "::1", "[::1]", "[::1]:22", "192.0.2.1"} {
		if _, err := ssh.New(ssh.Options{Addr: addr}); err != nil {
			t.Errorf("address %q: %v", addr, err)
		}
	}
}

// A login shell other than bash will do; one that talks before the command, or that
// is none, is an error that quotes it.
func TestLoginShells(t *testing.T) {
	for _, tc := range []struct {
		name, force string
		want        *refusal
	}{
		{"dash", `dash -c "$SSH_ORIGINAL_COMMAND"`, nil},
		{"busybox ash", `busybox sh -c "$SSH_ORIGINAL_COMMAND"`, nil},
		{"talks", `echo Welcome to this machine; eval "$SSH_ORIGINAL_COMMAND"`, &refusal{spec.CodeUnavailable, "Welcome to this machine", "start-up files"}},
		{"complains only", `echo rc: no such file >&2; eval "$SSH_ORIGINAL_COMMAND"`, nil},
		{"no shell", `echo This account is currently not available. >&2; exit 1`, &refusal{spec.CodeUnavailable, "not available", "login shell"}},
		{"says nothing", `exit 3`, &refusal{spec.CodeUnavailable, "nothing", "login shell"}},
		{"not Linux", `echo berth-probe 1; echo OpenBSD amd64; printf /home/me`, &refusal{spec.CodeUnsupported, "OpenBSD amd64", "Linux"}},
		{"an arch without a guest", `echo berth-probe 1; echo Linux s390x; printf /home/me`, &refusal{spec.CodeUnsupported, "s390x", "x86_64"}},
		{"no home", `HOME= ; eval "$SSH_ORIGINAL_COMMAND"`, &refusal{spec.CodeUnavailable, "home", "remote directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := sshtest.Start(t, sshtest.Options{Config: []string{"ForceCommand " + tc.force}})
			_, err := probe(t, options(s))
			if tc.want != nil {
				tc.want.check(t, err)
			} else if err != nil {
				t.Errorf("%v\n%s", err, s.Log())
			}
		})
	}
}
