// Package streamtest proves the streams of a place with a program of its own: a server
// of the Model Context Protocol that is spoken to as if it were local, and bytes by
// the gigabyte, with the memory of both sides measured meanwhile. The program is
// built once a test and copied into the place as a file, so that it runs in an image
// with nothing else in it.
//
// BERTH_TEST_SOAK=1 asks for the full sizes.
package streamtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/testutil/race"
)

// flat is the most by which the memory of a side may grow while a gigabyte passes.
const flat = 64 << 20

// Run proves the streams of sb.
// The host's memory is that of this process, so nothing else may run in it.
func Run(t *testing.T, sb *berth.Sandbox) {
	p := &peer{sb: sb, path: install(t, sb)}
	size, pause := int64(96<<20), 2*time.Second
	if os.Getenv("BERTH_TEST_SOAK") != "" {
		size, pause = 1<<30, time.Minute
	}
	t.Run("mcp", p.mcp)
	t.Run("half-close", p.halfClose)
	t.Run("both ways", func(t *testing.T) { p.bothWays(t, min(size, 100<<20)) })
	t.Run("large", func(t *testing.T) { p.large(t, size, 0) })
	t.Run("stopped reader", func(t *testing.T) { p.large(t, size/4, pause) })
}

// Build makes the program, for a Linux of this architecture, and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peer")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/berth-dev/berth/internal/testutil/streamtest/peer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the peer: %v\n%s", err, out)
	}
	return path
}

func install(t *testing.T, sb *berth.Sandbox) string {
	t.Helper()
	data, err := os.ReadFile(Build(t))
	if err != nil {
		t.Fatal(err)
	}
	const name = "streamtest-peer"
	if err := sb.Files().WriteFile(t.Context(), name, data, files.WriteOptions{Mode: 0o755}); err != nil {
		t.Fatalf("copy the peer in: %v", err)
	}
	return "./" + name
}

type peer struct {
	sb   *berth.Sandbox
	path string
}

// pipes starts a verb with pipes for its input and output.
func (p *peer) pipes(t *testing.T, stderr io.Writer, args ...string) (*berth.Cmd, io.WriteCloser, io.ReadCloser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	c := p.sb.CommandContext(ctx, p.path, args...)
	c.Stderr = stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, in, out
}

// The end of the input reaches the program while its output goes on.
func (p *peer) halfClose(t *testing.T) {
	c, in, out := p.pipes(t, nil, "echo")
	text := strings.Repeat("half a close\n", 10_000)
	go func() {
		_, _ = io.WriteString(in, text)
		in.Close()
	}()
	got, err := io.ReadAll(out)
	if err != nil || string(got) != text {
		t.Errorf("%d bytes of %d come back, %v", len(got), len(text), err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("wait: %v", err)
	}
}

// As much goes in as comes out, at the same time, byte for byte.
func (p *peer) bothWays(t *testing.T, size int64) {
	c, in, out := p.pipes(t, nil, "echo")
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(in, &pattern{left: size})
		sent <- errors.Join(err, in.Close())
	}()
	check := &checker{}
	_, err := io.Copy(check, out)
	if err := errors.Join(err, <-sent, c.Wait()); err != nil {
		t.Errorf("both ways: %v", err)
	}
	check.want(t, size)
}

// A long output arrives whole, and costs no memory on either side: not even where its
// reader stops for a while.
func (p *peer) large(t *testing.T, size int64, pause time.Duration) {
	guestBefore := p.guestMemory(t)
	host := Watch(t, os.Getpid())
	check := &checker{}
	var guestMeanwhile int64
	c := p.sb.CommandContext(t.Context(), p.path, "pour", strconv.FormatInt(size, 10))
	paused := pause == 0
	c.Stdout = writer(func(b []byte) (int, error) {
		if !paused && check.at > size/3 {
			paused = true
			time.Sleep(pause)
			guestMeanwhile = p.guestMemory(t)
		}
		return check.Write(b)
	})
	begun := time.Now()
	if err := c.Run(); err != nil {
		t.Errorf("pour: %v", err)
	}
	took := time.Since(begun)
	check.want(t, size)
	if c.Exit != nil && c.Exit.StdoutBytes != size {
		t.Errorf("the guest counts %d bytes", c.Exit.StdoutBytes)
	}
	guestAfter := max(p.guestMemory(t), guestMeanwhile)
	t.Logf("%d MiB in %v, %.0f MB/s; the guest grew by %d MiB to %d, the host by %d to %d", size>>20, took.Round(time.Millisecond),
		float64(size)/1e6/took.Seconds(), (guestAfter-guestBefore)>>20, guestAfter>>20, host.Growth()>>20, host.Peak()>>20)
	if guestAfter-guestBefore > flat*race.MemoryFactor || !host.Flat() {
		t.Errorf("the guest grew by %d bytes and the host by %d", guestAfter-guestBefore, host.Growth())
	}
}

// guestMemory is the resident set of the guest, as a command of it sees it.
func (p *peer) guestMemory(t *testing.T) int64 {
	t.Helper()
	out, err := p.sb.CommandContext(t.Context(), p.path, "memory").Output()
	if err != nil {
		t.Errorf("the guest's memory: %v", err)
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
	if err != nil {
		t.Errorf("the guest's memory: %v", err)
	}
	return n
}

type writer func(b []byte) (int, error)

func (f writer) Write(b []byte) (int, error) { return f(b) }

// pattern is what the program pours: 64-bit numbers that count up by 8.
type pattern struct{ at, left int64 }

// Read implements io.Reader.
func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b))&^7, p.left)
	for i := int64(0); i < n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], uint64(p.at+i))
	}
	p.at += n
	p.left -= n
	return int(n), nil
}

// checker takes the pattern and notes where it is not what it is to be.
type checker struct {
	at    int64
	wrong error
	part  []byte // of a number
}

// Write implements io.Writer; it takes everything.
func (c *checker) Write(b []byte) (int, error) {
	n := len(b)
	if len(c.part) > 0 {
		k := min(8-len(c.part), len(b))
		c.part, b = append(c.part, b[:k]...), b[k:]
		if len(c.part) < 8 {
			return n, nil
		}
		c.check(c.part)
		c.part = c.part[:0]
	}
	for ; len(b) >= 8; b = b[8:] {
		c.check(b)
	}
	c.part = append(c.part, b...)
	return n, nil
}

func (c *checker) check(b []byte) {
	if got := binary.BigEndian.Uint64(b); got != uint64(c.at) && c.wrong == nil {
		c.wrong = fmt.Errorf("at byte %d stands %d", c.at, got)
	}
	c.at += 8
}

func (c *checker) want(t testing.TB, size int64) {
	t.Helper()
	if c.wrong != nil || c.at != size || len(c.part) > 0 {
		t.Errorf("%d bytes came of %d, the first wrong one: %v", c.at+int64(len(c.part)), size, c.wrong)
	}
}

// Pattern compares all of r with the first size bytes of the pattern.
func Pattern(t testing.TB, r io.Reader, size int64) {
	t.Helper()
	check := &checker{}
	if _, err := io.Copy(check, r); err != nil {
		t.Errorf("read: %v", err)
	}
	check.want(t, size)
}
