//go:build linux

package agent_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// numbers is a script that writes n different bytes to stdout, and what they are.
func numbers(n int) (script string, want []byte) {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return fmt.Sprintf("seq 0 100000000 | head -c %d", n), b.Bytes()[:n]
}

// attach takes a command up again, and its outputs from the given offsets on.
func (h *host) attach(id string, offsets ...int64) (*running, error) {
	r := &running{t: h.t, id: id}
	r.ctl = h.open(&wire.Request{Op: wire.OpAttach, Attach: &wire.AttachRequest{ID: id}})
	for i, offset := range offsets {
		r.out[i] = collect(h.open(dataRequest(id, i+1, offset)))
	}
	return r, r.awaitStart()
}

// A connection that is cut in the middle of the output loses and repeats nothing.
func TestResumeOutput(t *testing.T) {
	p := startPlace(t)
	const total = 5 << 20
	script, want := numbers(total)
	req := shell(script)
	req.Stderr = false
	h := p.dial("a")
	h.open(&wire.Request{Op: wire.OpExec, Exec: req})
	var got []byte
	s := h.open(dataRequest(req.ID, 1, 0))
	for cuts := 0; ; cuts++ {
		// Some is read and counted; what is on its way when the line is cut is not.
		d := wire.NewDataReader(s)
		buf := make([]byte, 700_000)
		k, err := io.ReadFull(d, buf)
		got = append(got, buf[:k]...)
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			if len(got) != total {
				t.Fatalf("cut %d: %v after %d bytes", cuts, err, len(got))
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		h.conn.Close()
		h = p.dial("a")
		ctl := h.open(&wire.Request{Op: wire.OpAttach, Attach: &wire.AttachRequest{ID: req.ID}})
		s = h.open(dataRequest(req.ID, 1, int64(len(got))))
		r := &running{t: t, ctl: ctl}
		if err := r.awaitStart(); err != nil {
			t.Fatalf("attach: %v", err)
		}
		if len(got)+700_000 > total {
			rest, err := io.ReadAll(wire.NewDataReader(s))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rest...)
			e, err := r.exit()
			if err != nil || e.Code != 0 || e.StdoutBytes != total {
				t.Errorf("exit: %+v, %v", e, err)
			}
			break
		}
	}
	if sha256.Sum256(got) != sha256.Sum256(want) {
		t.Errorf("%d bytes that differ from the %d written", len(got), len(want))
	}
}

// Input goes on where the command has it, after a cut as well.
func TestResumeInput(t *testing.T) {
	p := startPlace(t)
	const total = 4 << 20
	_, data := numbers(total)
	req := command("sh", "-c", "sleep 0.3; sha256sum")
	req.Stdin = true
	h := p.dial("a")
	r := h.mustStart(req)
	if _, err := wire.ReadReply(r.in); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = wire.WriteData(r.in, data, 0) }()
	time.Sleep(400 * time.Millisecond) // anywhere in the middle
	h.conn.Close()

	h = p.dial("a")
	r, err := h.attach(req.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	in := h.open(dataRequest(req.ID, 0, 0))
	reply, err := wire.ReadReply(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.WriteData(in, data[reply.Offset:], 0); err != nil {
		t.Fatal(err)
	}
	if err := wire.WriteEnd(in); err != nil {
		t.Fatal(err)
	}
	if got, want := r.wait().Stdout, fmt.Sprintf("%x  -\n", sha256.Sum256(data)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A command without a key that nobody takes up again ends with the resume window; so
// does one whose client says goodbye, at once.
func TestAbandonedCommandsEnd(t *testing.T) {
	p := startPlace(t, "--resume", "300ms")
	h := p.dial("a")
	r := h.mustStart(shell(`sleep 311 & echo $! > child; yes`))
	child, leader := findProc(t, p.fileText("child")), findProc(t, itoa(r.started.PID))
	h.conn.Close()
	eventually(t, "the command ends", func() bool { return !child.alive() && !leader.alive() })
	h = p.dial("a")
	if _, err := h.attach(r.id); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("attach: %v", err)
	}

	q := startPlace(t, "--resume", "1h")
	h, other := q.dial("a"), q.dial("b")
	mine := h.mustStart(shell("sleep 312 & wait"))
	theirs := other.mustStart(shell("sleep 313 & wait"))
	keyed := h.mustStart(withKey(shell("sleep 314"), "k"))
	if _, err := h.call(&wire.Request{Op: wire.OpBye}); err != nil {
		t.Fatal(err)
	}
	if startOf(mine.started.PID) != "" {
		t.Error("a command outlived the goodbye")
	}
	if startOf(theirs.started.PID) == "" || startOf(keyed.started.PID) == "" {
		t.Error("the goodbye ended another client's command, or one with a key")
	}
}

func withKey(r *wire.ExecRequest, key string) *wire.ExecRequest {
	r.Key = key
	return r
}

// A repeated key runs nothing: it answers with the command that runs or ran under
// it, from the beginning of its output.
func TestKeys(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	first := h.mustStart(withKey(shell("echo run >> runs; echo out; sleep 0.5; echo end >&2; exit 3"), "k1"))
	second := p.dial("b").mustStart(withKey(shell("echo other"), "k1"))
	if second.started.ID != first.id || second.started.PID != first.started.PID {
		t.Errorf("while it runs: %+v, want %+v", second.started, first.started)
	}
	want := first.wait()
	if want.Stdout != "out\n" || want.Stderr != "end\n" || want.Exit.Code != 3 {
		t.Errorf("first: %+v", want)
	}
	for name, r := range map[string]*running{"while it runs": second, "after its end": h.mustStart(withKey(shell("echo other"), "k1"))} {
		got := r.wait()
		if got.Stdout != want.Stdout || got.Stderr != want.Stderr || got.Exit.Code != 3 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if runs := p.fileText("runs"); runs != "run\n" {
		t.Errorf("it ran as often as %q says", runs)
	}

	if _, err := h.start(withKey(command("nosuchprogram"), "k2")); spec.CodeOf(err) != spec.CodeStartFailed {
		t.Errorf("start: %v", err)
	}
	if got := h.run(withKey(shell("echo second try"), "k2")); got.Stdout != "second try\n" {
		t.Errorf("a start that failed is remembered: %+v", got)
	}
}

// A command with a key runs on when nobody has read it for the resume window, and its
// beginning is kept.
func TestKeyedOutputIsBounded(t *testing.T) {
	p := startPlace(t, "--resume", "300ms")
	h := p.dial("a")
	const total = 6 << 20
	script, want := numbers(total)
	req := withKey(shell(script), "big")
	req.Stderr = false
	r := &running{t: t, id: req.ID, ctl: h.open(&wire.Request{Op: wire.OpExec, Exec: req})}
	if err := r.awaitStart(); err != nil {
		t.Fatal(err)
	}
	h.conn.Close() // nobody reads
	h = p.dial("b")
	eventually(t, "it ends", func() bool {
		reply, err := h.call(&wire.Request{Op: wire.OpStatus})
		return err == nil && reply.Status.Commands == 0
	})
	req.ID = newID()
	got := h.run(req)
	if got.Exit.StdoutBytes != total {
		t.Errorf("exit: %+v", got.Exit)
	}
	if len(got.Stdout) != 1<<20 || got.Stdout != string(want[:1<<20]) {
		t.Errorf("%d bytes of the beginning, want 1 MiB", len(got.Stdout))
	}
}

// A reader that stops stops the command, and one that leaves on a living connection
// lets it run to its end.
func TestBackPressure(t *testing.T) {
	p := startPlace(t)
	h := p.dial("a")
	req := shell("head -c 50000000 /dev/zero; echo done > done")
	req.Stderr = false
	ctl := h.open(&wire.Request{Op: wire.OpExec, Exec: req})
	data := h.open(dataRequest(req.ID, 1, 0))
	r := &running{t: t, id: req.ID, ctl: ctl}
	if err := r.awaitStart(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if got := h.run(shell("ls")).Stdout; strings.Contains(got, "done") {
		t.Error("50 MB went somewhere although nobody reads")
	}
	data.Close()
	e, err := r.exit()
	if err != nil || e.Code != 0 || e.StdoutBytes != 50_000_000 {
		t.Errorf("exit: %+v, %v", e, err)
	}
}

// keyedNumbers starts a command with a key that writes total bytes, and reads some of them.
func (p *place) keyedNumbers(client string, total, read int) (h *host, r *running, got []byte) {
	p.t.Helper()
	script, _ := numbers(total)
	req := withKey(shell(script+"; echo > done"), "big")
	req.Stderr = false
	h = p.dial(client)
	r = &running{t: p.t, id: req.ID, ctl: h.open(&wire.Request{Op: wire.OpExec, Exec: req})}
	if err := r.awaitStart(); err != nil {
		p.t.Fatal(err)
	}
	got = make([]byte, read)
	if _, err := io.ReadFull(wire.NewDataReader(h.open(dataRequest(r.id, 1, 0))), got); err != nil {
		p.t.Fatal(err)
	}
	return h, r, got
}

func (p *place) done() bool {
	_, err := os.Stat(filepath.Join(p.workdir, "done"))
	return err == nil
}

// A connection that is lost for less than the resume window costs a command with a key no
// byte either: it does not run away from a reader that may come back.
func TestResumeKeyedOutput(t *testing.T) {
	p := startPlace(t, "--resume", "1h")
	const total, before = 6 << 20, 3 << 20
	_, want := numbers(total)
	h, r, got := p.keyedNumbers("a", total, before)
	h.conn.Close()
	other := p.dial("b")
	eventually(t, "the loss is noticed", func() bool {
		reply, err := other.call(&wire.Request{Op: wire.OpStatus})
		return err == nil && reply.Status.Clients == 1
	})
	// In which a command that nothing holds back writes the rest many times over.
	time.Sleep(500 * time.Millisecond)
	if p.done() {
		t.Fatal("the command ran away from a reader that may come back")
	}
	h = p.dial("a")
	r, err := h.attach(r.id)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(wire.NewDataReader(h.open(dataRequest(r.id, 1, before))))
	if got = append(got, rest...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes that differ from the %d written, %v", len(got), total, err)
	}
	if e, err := r.exit(); err != nil || e.Code != 0 || e.StdoutBytes != total {
		t.Errorf("exit: %+v, %v", e, err)
	}
}

// Nobody is waited for who has left: neither one that said goodbye nor one that closed its
// stream.
func TestKeyedOutputOfOneWhoLeft(t *testing.T) {
	p := startPlace(t, "--resume", "1h")
	h, _, _ := p.keyedNumbers("a", 6<<20, 1000)
	if _, err := h.call(&wire.Request{Op: wire.OpBye}); err != nil {
		t.Fatal(err)
	}
	h.conn.Close()
	eventually(t, "it runs on after the goodbye", p.done)

	p = startPlace(t, "--resume", "1h")
	script, _ := numbers(6 << 20)
	req := withKey(shell(script+"; echo > done"), "big")
	req.Stderr = false
	h = p.dial("a")
	r := &running{t: t, id: req.ID, ctl: h.open(&wire.Request{Op: wire.OpExec, Exec: req})}
	if err := r.awaitStart(); err != nil {
		t.Fatal(err)
	}
	h.open(dataRequest(r.id, 1, 0)).Close()
	eventually(t, "it runs on after the stream was closed", p.done)
}

// A guest says who it is: the same on each connection, and another after each start.
func TestIncarnation(t *testing.T) {
	p, q := startPlace(t), startPlace(t)
	first, again, other := p.dial("a").hello.Incarnation, p.dial("b").hello.Incarnation, q.dial("a").hello.Incarnation
	if first == "" || first != again || first == other {
		t.Errorf("%q, %q again, and %q of another", first, again, other)
	}
}

// A command whose output waits for its host says that it has ended, and whether in time; to
// a host that understands it.
func TestEndedBeforeItsOutput(t *testing.T) {
	p := startPlace(t)
	for _, tt := range []struct {
		name string
		req  *wire.ExecRequest
		late bool
	}{
		{"in time", withTimeout(shell("head -c 1200000 /dev/zero"), time.Minute), false},
		{"in time, with as much as fits", withTimeout(shell("head -c 1300000 /dev/zero"), time.Minute), false},
		{"too late", withTimeout(shell("head -c 1200000 /dev/zero; exec sleep 315"), 300*time.Millisecond), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Stderr = false
			h := p.dial("a")
			r := &running{t: t, id: tt.req.ID, ctl: h.open(&wire.Request{Op: wire.OpExec, Exec: tt.req})}
			data := h.open(dataRequest(r.id, 1, 0)) // which nobody reads yet
			if err := r.awaitStart(); err != nil {
				t.Fatal(err)
			}
			var ev wire.Event
			if err := wire.ReadMessage(r.ctl, &ev, 0); err != nil || ev.Ended == nil || ev.Ended.TimedOut != tt.late {
				t.Fatalf("%+v, %v; want the end, timed out: %v", ev, err, tt.late)
			}
			n, err := io.Copy(io.Discard, wire.NewDataReader(data))
			e, eerr := r.exit()
			if err != nil || eerr != nil || e.StdoutBytes != n || e.TimedOut != tt.late {
				t.Errorf("%d bytes, %v; exit %+v, %v", n, err, e, eerr)
			}
		})
	}
}
