//go:build unix

package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/internal/testutil/sshtest"
	"github.com/berth-dev/berth/spec"
)

// testHost returns a driver for s, through addr if it is not "".
func testHost(tb testing.TB, s *sshtest.Server, addr string, t timing) *host {
	tb.Helper()
	if addr == "" {
		addr = s.Addr
	} else {
		s.AlsoKnownAs(tb, addr)
	}
	d, err := New(Options{Addr: addr, User: s.User, KeyFiles: []string{s.KeyFile}, KnownHostsFiles: []string{s.KnownHosts}})
	if err != nil {
		tb.Fatal(err)
	}
	h := d.(*host)
	h.pool.t = t
	return h
}

// testContext ends before the test's patience does.
func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition that the test depends on.
func eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("never came about: %s", what)
		}
	}
}

// checkGoroutines fails the test if it leaves goroutines behind.
func checkGoroutines(tb testing.TB) {
	before := runtime.NumGoroutine()
	tb.Cleanup(func() {
		for deadline := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				tb.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
				return
			}
		}
	})
}

func echoes(s *stream, text string) error {
	if _, err := io.WriteString(s, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(s, got); err != nil {
		return err
	}
	if string(got) != text {
		return fmt.Errorf("got %q, want %q", got, text)
	}
	return nil
}

// Where the server refuses more channels on a connection, another is dialled; all
// of them are closed a moment after their last channel, and nothing is left running.
func TestPoolGrowsPastMaxSessions(t *testing.T) {
	checkGoroutines(t)
	s := sshtest.Start(t, sshtest.Options{Config: []string{"MaxSessions 2"}})
	p := sshtest.StartProxy(t, s.Addr, 0)
	tm := defaultTiming()
	tm.idle = 200 * time.Millisecond
	h := testHost(t, s, p.Addr, tm)
	ctx := testContext(t)
	const channels = 7
	streams := make([]*stream, channels)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			st, err := h.pool.exec(ctx, "cat")
			if err == nil {
				streams[i] = st
				err = echoes(st, fmt.Sprint("channel ", i))
			}
			if err != nil {
				t.Errorf("channel %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if got, want := p.Accepted(), (channels+1)/2; got != want {
		t.Errorf("%d connections, want %d", got, want)
	}
	for _, st := range streams {
		if st != nil {
			st.Close()
		}
	}
	eventually(t, "idle connections are closed", func() bool { return p.Open() == 0 })
}

// A server that opens no session at all is an error, not a loop of connections.
func TestPoolNoSessions(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{Config: []string{"MaxSessions 0"}})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	_, err := h.pool.exec(testContext(t), "true")
	if !errors.Is(err, spec.ErrPermission) || spec.HintOf(err) == "" {
		t.Errorf("exec = %v, want permission with a hint", err)
	}
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// Concurrent first uses share one dial, and a failed dial is not remembered.
func TestPoolDialsOnce(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	ctx := testContext(t)
	h.pool.dial = func(context.Context) (*gossh.Client, error) { return nil, errors.New("refused") }
	if _, err := h.pool.exec(ctx, "true"); err == nil {
		t.Fatal("exec succeeded without a server")
	}
	h.pool.dial = h.o.dial
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := h.pool.output(ctx, "echo hello", 100); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A server that hangs up on some while many log in is asked again.
func TestDialAsksAgain(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	p.Refuse(2)
	if _, _, err := h.pool.output(testContext(t), "true", 100); err != nil {
		t.Error(err)
	}
}

// A shared dial belongs to nobody: it goes on when the caller that began it leaves,
// and ends when the last one does.
func TestPoolDialOutlivesItsFirstCaller(t *testing.T) {
	checkGoroutines(t)
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	p.Freeze(true)
	first, cancel := context.WithCancel(testContext(t))
	errs := make(chan error, 2)
	go func() {
		_, err := h.pool.exec(first, "true")
		errs <- err
	}()
	eventually(t, "the dial has begun", func() bool { return p.Accepted() == 1 })
	go func() {
		_, _, err := h.pool.output(testContext(t), "true", 100)
		errs <- err
	}()
	eventually(t, "both wait", func() bool {
		h.pool.mu.Lock()
		defer h.pool.mu.Unlock()
		return h.pool.flight != nil && h.pool.flight.waiters == 2
	})
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	p.Freeze(false)
	if err := <-errs; err != nil {
		t.Errorf("the caller that stayed got %v", err)
	}
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A connection that was reset is replaced by the next use; one on which nothing
// comes back any more is found out by keep-alives, and its streams end.
func TestPoolReplacesDeadConnections(t *testing.T) {
	checkGoroutines(t)
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	tm := defaultTiming()
	tm.keepAlive, tm.idle = 500*time.Millisecond, 200*time.Millisecond
	h := testHost(t, s, p.Addr, tm)
	ctx := testContext(t)
	for _, tc := range []struct {
		name      string
		die, heal func()
	}{
		{"reset", p.Cut, func() {}},
		{"frozen", func() { p.Freeze(true) }, func() { p.Freeze(false); p.Cut() }},
	} {
		st, err := h.pool.exec(ctx, "cat")
		if err != nil {
			t.Fatal(err)
		}
		if err := echoes(st, tc.name); err != nil {
			t.Fatal(err)
		}
		tc.die()
		if _, err := st.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: the stream lives", tc.name)
		}
		tc.heal()
		st.Close()
		again, err := h.pool.exec(ctx, "cat")
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if err := echoes(again, tc.name); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		again.Close()
	}
}

// Close ends a Read and a Write that are under way, whether or not the far side
// agrees.
func TestStreamCloseIsLocal(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	p := sshtest.StartProxy(t, s.Addr, 0)
	h := testHost(t, s, p.Addr, defaultTiming())
	st, err := h.pool.exec(testContext(t), "sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	p.Freeze(true)
	ended := make(chan error, 1)
	go func() {
		_, err := st.Read(make([]byte, 1))
		ended <- err
	}()
	st.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Read = %v, want a closed pipe", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Close does not end a Read")
	}
	if _, err := st.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write = %v, want a closed pipe", err)
	}
}

// A stream carries every byte both ways, whatever its size, and the exit status; of
// stderr it keeps the end only.
func TestStreamBytes(t *testing.T) {
	s := sshtest.Start(t, sshtest.Options{})
	h := testHost(t, s, "", defaultTiming())
	ctx := testContext(t)
	st, err := h.pool.exec(ctx, `cat; head -c 100000 /dev/zero | tr "\0" x >&2; echo end >&2; exit 7`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	sent := make([]byte, 5_000_001)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	go func() {
		_, _ = st.Write(sent)
		_ = st.CloseWrite()
	}()
	got, err := io.ReadAll(st)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes and %v, want the %d that were sent", len(got), err, len(sent))
	}
	if code, known, err := st.status(ctx); code != 7 || !known || err != nil {
		t.Errorf("status %d, %v, %v, want 7", code, known, err)
	}
	if said := st.stderr.String(); len(said) != maxStderrBytes || !strings.HasSuffix(said, "xend\n") {
		t.Errorf("kept %d bytes of stderr, want the last %d", len(said), maxStderrBytes)
	}
}

// hostile are names that a shell would take apart.
var hostile = []string{
	"plain", "with space", "quote'quote", `double"quote`, `back\slash\\`, "$(touch pwned)", "`touch pwned`", "$HOME", "a;touch pwned",
	"-rf", "*", "new\nline", "!!", "a&b|c>d<e", "#x", "~", "ünï", "\xff\xfe", `'"'"'`, `\'`, "{a,b}", "%s",
}

// A quoted word means itself to every login shell that is installed here.
func TestQuote(t *testing.T) {
	shells := 0
	for _, sh := range [][]string{{"bash"}, {"dash"}, {"busybox", "sh"}, {"zsh"}, {"fish"}, {"ksh"}} {
		if _, err := exec.LookPath(sh[0]); err != nil {
			continue
		}
		shells++
		for _, word := range hostile {
			cmd := exec.Command(sh[0], append(sh[1:], "-c", "printf %s "+quote(word))...)
			cmd.Dir = t.TempDir()
			out, err := cmd.Output()
			if err != nil || string(out) != word {
				t.Errorf("%s: %q became %q (%v)", sh, word, out, err)
			}
			if left, _ := os.ReadDir(cmd.Dir); len(left) > 0 {
				t.Errorf("%s: %q made %s", sh, word, left[0].Name())
			}
		}
	}
	if shells < 2 {
		t.Errorf("only %d shells were tried", shells)
	}
}

// The lines that carry our scripts mean the same to shells that differ in quotes.
func TestScriptsArePlain(t *testing.T) {
	for name, script := range map[string]string{"probe": probeScript, "place": placeScript, "upload": uploadScript} {
		if strings.ContainsAny(script, `'\`+"`") {
			t.Errorf("the %s script holds a quote, a backslash or a backquote", name)
		}
	}
}

// testFile makes a runnable file of some size, as a guest binary is.
func testFile(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "guest")
	text := "#!/bin/sh\n" + script + "\n" + strings.Repeat("# "+strings.Repeat("x", 97)+"\n", 5000)
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}
