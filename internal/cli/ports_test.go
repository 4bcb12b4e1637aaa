//go:build linux

package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A service of this machine is offered inside a sandbox and reached through it from here:
// byte for byte, with both ends kept, by many at once, until an interrupt.
func TestForwardThereAndBack(t *testing.T) {
	up, dir := berthCommand(t, "up", "--key", "k", "--isolation", "none")
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	berth := func(args ...string) *exec.Cmd {
		cmd := exec.Command("berth", args...)
		cmd.Env, cmd.Dir = up.Env, dir
		return cmd
	}
	defer func() {
		if out, err := berth("down", "--key", "k").CombinedOutput(); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	}()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { // it answers when all has come
				defer conn.Close()
				all, _ := io.ReadAll(conn)
				_, _ = conn.Write(all)
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(echo.Addr().String())
	forward := berth("forward", "--key", "k", "--reverse", "@berth-test-"+dir[len(dir)-20:]+":"+port, "0:@berth-test-"+dir[len(dir)-20:])
	said, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	forward.Stderr = &complaints
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	var local string
	for range 2 {
		if !lines.Scan() {
			_ = forward.Wait()
			t.Fatalf("forward: %s", complaints.String())
		}
		if where, _, ok := strings.Cut(lines.Text(), " here -> "); ok {
			local = where
		}
	}
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	done := make(chan error, 20)
	for range cap(done) {
		go func() { done <- roundTrip(local, data[:1<<16]) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	dial := berth("dial", "--key", "k", "@berth-test-"+dir[len(dir)-20:])
	dial.Stdin = bytes.NewReader(data)
	back, err := dial.Output()
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("dial: %d bytes of %d, %v", len(back), len(data), err)
	}
	_ = forward.Process.Signal(syscall.SIGINT)
	_, _ = io.Copy(io.Discard, said)
	if status := statusOf(t, forward.Wait()); status != 0 || complaints.Len() > 0 {
		t.Errorf("forward ended with %d, and said %q", status, complaints.String())
	}
	if conn, err := net.Dial("tcp", local); err == nil {
		conn.Close()
		t.Errorf("something still listens on %s", local)
	}
}

func roundTrip(address string, data []byte) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	back, err := io.ReadAll(conn)
	if err == nil && !bytes.Equal(back, data) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
