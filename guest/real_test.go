//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

const runtimeArch = runtime.GOARCH

// run runs a shell script to its end.
func run(t testing.TB, s *guest.Session, script string, stdin io.Reader) (spec.Exit, string, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	p, err := s.Start(context.Background(), &spec.Command{Args: spec.Shell(script)}, driver.Stdio{Stdin: stdin, Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatal(err)
	}
	e, err := p.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return e, out.String(), errOut.String()
}

// Results, streams and errors of real commands.
func TestExec(t *testing.T) {
	noLeaks(t)
	s := newPlace(t).open(nil)
	if e, out, errOut := run(t, s, "echo out; echo err >&2; exit 7", nil); e.Code != 7 || out != "out\n" || errOut != "err\n" {
		t.Errorf("%+v %q %q", e, out, errOut)
	}
	if e, out, _ := run(t, s, "cat; kill -9 $$", strings.NewReader("in")); e.Signal != 9 || e.Code != 137 || e.TimedOut || out != "in" {
		t.Errorf("%+v %q", e, out)
	}
	if e, out, _ := run(t, s, "head -c 3", zeros{}); e.Code != 0 || out != "\x00\x00\x00" {
		t.Errorf("%+v %q", e, out)
	}
	_, err := s.Start(context.Background(), argv("/no/such/program"), driver.Stdio{})
	wantCode(t, err, spec.CodeStartFailed)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	_, err = s.Start(context.Background(), &spec.Command{Args: []string{"true"}, Dir: "missing"}, driver.Stdio{})
	wantCode(t, err, spec.CodeInvalidPath)
	_, err = s.Start(context.Background(), argv(), driver.Stdio{})
	wantCode(t, err, spec.CodeInvalid)
}

// A failing source of input ends the input, and Wait returns the exit with the error.
func TestInputThatFails(t *testing.T) {
	s := newPlace(t).open(nil)
	p, err := s.Start(context.Background(), argv("cat"), driver.Stdio{Stdin: io.MultiReader(strings.NewReader("ab"), failing{}), Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(context.Background()); !errors.Is(err, errPlain) || e.StdoutBytes != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A timeout is a result; a cancel is the context's error and ends the tree; a signal
// and a kill reach the command.
func TestEndings(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	s := pl.open(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	p, err := s.Start(ctx, &spec.Command{Args: spec.Shell("echo so far; sleep 600"), Timeout: 2 * time.Second, Grace: -1}, driver.Stdio{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Wait(ctx); err != nil || !e.TimedOut || e.StdoutBytes != 7 || e.Kill == spec.KillNone {
		t.Errorf("timeout: %+v, %v", e, err)
	}

	p, err = s.Start(ctx, argv("sleep", "600"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(ctx, spec.SIGINT); err != nil {
		t.Error(err)
	}
	if e, err := p.Wait(ctx); err != nil || e.Signal != 2 || e.Code != 130 {
		t.Errorf("signal: %+v, %v", e, err)
	}
	if err := errors.Join(p.Signal(ctx, spec.SIGINT), p.Kill(ctx)); err != nil {
		t.Errorf("to one that has ended: %v", err)
	}

	ready := make(chan struct{}, 1)
	p, err = s.Start(ctx, &spec.Command{Args: spec.Shell("trap '' TERM INT; echo ready; while :; do sleep 1; done")}, driver.Stdio{Stdout: writerFunc(func(b []byte) (int, error) {
		ready <- struct{}{}
		return len(b), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	cancel()
	if _, err := p.Wait(context.Background()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
	if err := p.Kill(context.Background()); err != nil {
		t.Errorf("kill in the grace: %v", err)
	}
	within(t, 3*time.Second, func() bool { st, err := s.Status(context.Background()); return err == nil && st.Commands == 0 }, func() string { return "commands are left" })
}

// A stopped guest does not make the host wait longer than deadline, grace and 2 s.
func TestStoppedGuest(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	s := pl.open(nil)
	p, err := s.Start(context.Background(), &spec.Command{Args: []string{"sleep", "600"}, Timeout: time.Second, Grace: -1}, driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pl.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	e, err := p.Wait(context.Background())
	if err != nil || !e.TimedOut || e.Code != -1 || time.Since(begin) > 10*time.Second {
		t.Errorf("%+v, %v after %v", e, err, time.Since(begin))
	}
	quickly(t, 6*time.Second, "close", func() { s.Close(context.Background()) })
}

// Files go in and come out byte for byte.
func TestFilesRoundTrip(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	fsys := pl.open(nil).Files()
	ctx := context.Background()
	data := make([]byte, 5<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	if err := files.WriteFile(ctx, fsys, "d/e/a", data, files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := files.ReadFile(ctx, fsys, "d/e/a", 8<<20)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	_, err = files.ReadFile(ctx, fsys, "d/e/a", 0)
	wantCode(t, err, spec.CodeTooLarge)
	wantCode(t, fsys.Write(ctx, "d/e/b", strings.NewReader("abc"), 4, files.WriteOptions{}), spec.CodeInvalid)
	wantCode(t, fsys.Write(ctx, "d/e/b", strings.NewReader("abc"), 2, files.WriteOptions{}), spec.CodeInvalid)
	wantCode(t, fsys.Write(ctx, "d/e", io.LimitReader(zeros{}, 64<<20), 64<<20, files.WriteOptions{}), spec.CodeIsDirectory)
	entries, err := files.ReadDir(ctx, fsys, "d/e", 0)
	if err != nil || len(entries) != 1 || entries[0].Name != "a" || entries[0].Size != int64(len(data)) {
		t.Fatalf("%+v, %v", entries, err)
	}
	if err := fsys.Rename(ctx, "d/e/a", "d/x\nÿ", files.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Stat(ctx, "d/e/a", files.StatOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	wantCode(t, fsys.Remove(ctx, "d", files.RemoveOptions{}), spec.CodeExists)
	if err := fsys.Remove(ctx, "d", files.RemoveOptions{Recursive: true}); err != nil {
		t.Fatal(err)
	}
}

// A transport that is cut again and again, at random points of big transfers in both
// directions, loses and repeats no byte, and each command runs once.
func TestResume(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	var cuts atomic.Int64
	s := pl.open(func(c io.ReadWriteCloser) io.ReadWriteCloser {
		cuts.Add(1)
		return &cutter{ReadWriteCloser: c, left: 1000 + rand.Int64N(1<<20)}
	})
	want := 100
	if testing.Short() {
		want = 20
	}
	for round := 0; cuts.Load() < int64(want); round++ {
		resumeRound(t, pl, s, round)
	}
	t.Logf("%d connections", cuts.Load())
}

// The same through a transport that fragments, delays and stalls.
func TestResumeOverSlowTransport(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	var cuts atomic.Int64
	s := pl.open(func(c io.ReadWriteCloser) io.ReadWriteCloser {
		cuts.Add(1)
		return &fragmenter{ReadWriteCloser: &cutter{ReadWriteCloser: c, left: 1000 + rand.Int64N(1<<20)}}
	})
	for round := 0; cuts.Load() < 20; round++ {
		resumeRound(t, pl, s, round)
	}
}

// resumeRound sends numbered lines through a command that copies its input to both
// outputs, and counts how often it ran.
func resumeRound(t *testing.T, pl *place, s *guest.Session, round int) {
	t.Helper()
	const size = 2 << 20
	input := make([]byte, 0, size+16)
	for n := round; len(input) < size; n++ {
		input = append(strconv.AppendInt(input, int64(n), 10), '\n')
	}
	mark := pl.name()
	var out, errOut bytes.Buffer
	p, err := s.Start(context.Background(), &spec.Command{Args: []string{"/bin/sh", "-c", `echo ran >> "$1"; tee /dev/stderr; exit 3`, "sh", mark}},
		driver.Stdio{Stdin: bytes.NewReader(input), Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatalf("round %d: start: %v", round, err)
	}
	e, err := p.Wait(context.Background())
	if err != nil || e.Code != 3 {
		t.Fatalf("round %d: %+v, %v (%d and %d bytes)", round, e, err, out.Len(), errOut.Len())
	}
	for name, got := range map[string][]byte{"stdout": out.Bytes(), "stderr": errOut.Bytes()} {
		if !bytes.Equal(got, input) {
			at := 0
			for at < min(len(got), len(input)) && got[at] == input[at] {
				at++
			}
			t.Fatalf("round %d: %s has %d bytes of %d and differs at %d", round, name, len(got), len(input), at)
		}
	}
	if ran, err := os.ReadFile(mark); err != nil || string(ran) != "ran\n" {
		t.Fatalf("round %d: the command left %q, %v", round, ran, err)
	}
}

// A keyed command is found again by its key, and its output is given again.
func TestRepeatedKey(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	mark := pl.name()
	c := &spec.Command{Key: "once", Args: []string{"/bin/sh", "-c", `cat; echo ran >> "$1"; exit 4`, "sh", mark}}
	var ids []string
	for range 3 {
		s := pl.open(nil)
		var out bytes.Buffer
		p, err := s.Start(context.Background(), c, driver.Stdio{Stdin: strings.NewReader("input"), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := p.Wait(context.Background()); err != nil || e.Code != 4 || out.String() != "input" {
			t.Errorf("%+v, %v, %q", e, err, out.String())
		}
		ids = append(ids, p.ID())
		s.Close(context.Background())
	}
	if ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("ids %q", ids)
	}
	if ran, _ := os.ReadFile(mark); string(ran) != "ran\n" {
		t.Errorf("it left %q", ran)
	}
}

// A slow writer slows the command and costs no memory.
func TestBackPressure(t *testing.T) {
	noLeaks(t)
	s := newPlace(t).open(nil)
	block, moved := make(chan struct{}), int64(0)
	p, err := s.Start(context.Background(), argv("head", "-c", "200000000", "/dev/zero"), driver.Stdio{Stdout: writerFunc(func(b []byte) (int, error) {
		<-block
		moved += int64(len(b))
		return len(b), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // the command runs into the wall
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 32<<20 {
		t.Errorf("%d MiB of heap for a blocked stream", m.HeapAlloc>>20)
	}
	close(block)
	if e, err := p.Wait(context.Background()); err != nil || e.StdoutBytes != 200000000 || moved != 200000000 {
		t.Errorf("%+v, %v, %d", e, err, moved)
	}
}
