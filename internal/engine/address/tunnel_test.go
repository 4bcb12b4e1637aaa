//go:build linux

package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// engineBehind starts an sshd and, on its side, a socket that says a word to whoever
// comes. The address means the socket, by the host's alias.
func engineBehind(t *testing.T) (*sshtest.Server, string) {
	t.Helper()
	s := sshtest.Start(t, sshtest.Options{})
	socket := filepath.Join(s.Dir, "engine:1.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	return s, "ssh://far" + socket
}

// Whoever connects at once goes through one login, whatever the user's configuration says
// of the host; a login that is killed is made again, and one that nobody uses ends and
// leaves nothing.
func TestOneLoginForAll(t *testing.T) {
	s, host := engineBehind(t)
	sshtest.Client(t, append(s.Alias("far"), "IdentityFile "+s.KeyFile)...)
	t.Setenv("TMPDIR", t.TempDir())
	a, err := New(usual, Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	const many = 64
	conns := make([]net.Conn, many)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			conn, err := a.Dial(context.Background())
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			conns[i] = conn
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if n := strings.Count(s.Log(), "Accepted publickey"); n != 1 {
		t.Errorf("%d logins for %d connections, want 1", n, many)
	}
	sockets, _ := filepath.Glob(filepath.Join(os.TempDir(), "berth-ssh-*", "s"))
	if len(sockets) != 1 {
		t.Fatalf("sockets %v, want one", sockets)
	}
	if fi, err := os.Stat(sockets[0]); err != nil || fi.Mode().Perm()&0o077 != 0 {
		t.Errorf("the socket: %v, %v; want it this user's only", fi, err)
	}
	_ = syscall.Kill(-conns[0].(*tunnelled).login.pid, syscall.SIGTERM)
	if _, err := conns[0].Read(make([]byte, 64)); err != nil { // the rest of the word
		t.Errorf("read: %v", err)
	}
	if _, err := conns[0].Read(make([]byte, 64)); err == nil {
		t.Error("a connection outlives its login")
	}
	<-conns[0].(*tunnelled).login.ended
	again, err := a.Dial(context.Background())
	if err != nil {
		t.Fatalf("after the login was killed: %v", err)
	}
	second := again.(*tunnelled).login
	for _, conn := range append(conns, again) {
		conn.Close()
		conn.Close() // counts once
	}
	deadline := time.After(idleLimit + 10*time.Second)
	select {
	case <-second.ended:
	case <-deadline:
		t.Error("a login that nobody uses goes on")
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What goes wrong on the way is one line with ssh's own words, and a cure.
func TestSSHRefusals(t *testing.T) {
	s, host := engineBehind(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	wrong := filepath.Join(t.TempDir(), "key")
	sshtest.NewKey(t, wrong, "ed25519", "")
	ours := append(s.Alias("far"), "IdentityFile "+s.KeyFile)
	for _, tt := range []struct {
		name   string
		config []string
		o      Options
		want   error
		text   string
	}{
		{"key from the options", s.Alias("far"), Options{Host: host, SSHKey: s.KeyFile}, nil, ""},
		{"not our key", s.Alias("far"), Options{Host: host, SSHKey: wrong}, spec.ErrPermission, "Permission denied"},
		{"unknown host key", append([]string{"UserKnownHostsFile /dev/null"}, ours...), Options{Host: host}, spec.ErrPermission, "Host key verification failed"},
		{"nobody listens", append([]string{"Port " + strings.TrimPrefix(nobody.Addr().String(), "127.0.0.1:")}, ours...), Options{Host: host}, spec.ErrUnavailable, "Connection refused"},
		{"no such host", ours, Options{Host: "ssh://berth.invalid"}, spec.ErrUnavailable, "berth.invalid"},
		{"nobody at the socket", ours, Options{Host: host + ".not"}, nil, "nobody answers at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sshtest.Client(t, tt.config...)
			begin := time.Now()
			err := exchange(tt.o)
			var ended *EndError
			switch {
			case errors.As(err, &ended):
				if tt.text == "" || !strings.Contains(err.Error(), tt.text) || ended.Hint == "" {
					t.Errorf("%v (hint %q); want %q", err, ended.Hint, tt.text)
				}
			case !errors.Is(err, tt.want), tt.want != nil && (!strings.Contains(err.Error(), tt.text) || spec.HintOf(err) == "" || strings.Contains(err.Error(), "\n")):
				t.Errorf("%v (hint %q); want %v with %q", err, spec.HintOf(err), tt.want, tt.text)
			}
			if d := time.Since(begin); d > loginLimit {
				t.Errorf("it took %v", d)
			}
		})
	}
	t.Setenv("PATH", t.TempDir())
	if err := exchange(Options{Host: host}); !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), "no ssh program") {
		t.Errorf("without ssh: %v", err)
	}
}

// A host that turns some away of many that come at once is asked again.
func TestTurnedAway(t *testing.T) {
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	script := fmt.Sprintf("#!/bin/sh\necho x >>%s\necho 'kex_exchange_identification: Connection reset by peer' >&2\nexit 255\n", count)
	write(t, filepath.Join(dir, "ssh"), script)
	if err := os.Chmod(filepath.Join(dir, "ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	err := exchange(Options{Host: "ssh://far"})
	asked, _ := os.ReadFile(count)
	if n := strings.Count(string(asked), "x"); n != logins || !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), "Connection reset") {
		t.Errorf("asked %d times, %v; want %d and unavailable", n, err, logins)
	}
}
