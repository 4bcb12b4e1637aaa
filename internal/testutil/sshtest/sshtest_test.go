//go:build unix

package sshtest

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"
)

// The server is a real one: OpenSSH's own client logs in with what Server names.
func TestServerAnswersOpenSSH(t *testing.T) {
	s := Start(t, Options{HostKeys: []string{"ed25519", "rsa"}})
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("ssh", "-F", "none", "-p", port, "-i", s.KeyFile, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile="+s.KnownHosts, "-o", "StrictHostKeyChecking=yes", s.User+"@"+host, "echo here")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "here\n" {
		t.Fatalf("ssh: %v: %q\n%s", err, out, s.Log())
	}
}

// A proxy delays each direction and delivers every byte; Cut ends what is open.
func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	const delay = 20 * time.Millisecond
	p := StartProxy(t, echo.Addr().String(), delay)
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	begin := time.Now()
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("the proxy changed bytes")
	}
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a round trip took %v, want at least %v", took, 2*delay)
	}
	p.Cut()
	if _, err := c.Read(got); err == nil {
		t.Error("the connection lives after Cut")
	}
}
