package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// terminalViewCases are about those who look at a terminal.
func terminalViewCases() []Case {
	shell := all(needTerminals, needShell)
	return []Case{
		{Name: "TerminalReplay", Rule: "One who attaches is told first what is kept, each part at its size, then Live, then what is new.", Need: shell, Run: terminalReplay},
		{Name: "TerminalReplayBeginsClean", Rule: "A replay that lacks its beginning begins after the end of a line or sequence, never within a character, with the modes restored that are set there.", Need: shell, Run: terminalClean},
		{Name: "TerminalOfNobody", Rule: "With no viewer the output waits for nobody.", Need: shell, Run: terminalOfNobody},
		{Name: "TerminalWaitsForItsViewer", Rule: "While no viewer keeps up the program waits, and nothing is skipped.", Need: shell, Run: terminalWaits},
		{Name: "TerminalSlowViewer", Rule: "The fastest viewer paces the output; one who has fallen behind is told how much was skipped.", Need: shell, Run: terminalSlow},
		{Name: "TerminalViewersType", Rule: "All viewers type into one terminal; what each types at a time is not torn.", Need: shell, Run: terminalTypists},
		{Name: "TerminalThatReadsNothing", Rule: "A program that reads nothing makes Write wait, until its ctx ends; what was taken by then is typed once.", Need: shell, Run: terminalReadsNothing},
		{Name: "TerminalDetach", Rule: "Detach ends the view and not the terminal; Next and Write are invalid then, and the viewer is not counted.", Need: shell, Run: terminalDetach},
		{Name: "TerminalOutlivesItsClient", Rule: "A terminal belongs to the place: another client finds it by its id, with what is kept.", Need: all(shell, needKeyed), Run: terminalOutlives},
		{Name: "TerminalsEndWithTheirPlace", Rule: "Reap ends the terminals of the place; no process is left.", Need: all(shell, needKeyed), Run: terminalReaped},
		{Name: "TerminalCount", Rule: "At most 64 terminals run at a time; the ids of a place count up and are never used again.", Need: shell, Own: true, Run: terminalCount},
	}
}

func terminalReplay(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`echo one; read x; echo two; read x; echo three; read x`))
	s.await(ctx, t, "one\r\n")
	if err := s.Resize(ctx, berth.TerminalSize{Cols: 60, Rows: 20}); err != nil {
		t.Fatalf("resize: %v", err)
	}
	s.enter(ctx, t, "\n")
	s.await(ctx, t, "two\r\n")
	if err := s.Resize(ctx, berth.TerminalSize{Cols: 90, Rows: 30}); err != nil {
		t.Fatalf("resize: %v", err)
	}
	before := s.shown()
	s.Detach()
	again := e.attachTo(ctx, t, e.Sandbox, s.ID())
	again.await(ctx, t, "two\r\n")
	again.enter(ctx, t, "\n")
	again.await(ctx, t, "three\r\n")
	again.enter(ctx, t, "\n")
	again.end(ctx, t, 0)
	if !strings.HasPrefix(again.shown(), before) || !strings.Contains(before, "one\r\n\r\ntwo\r\n") {
		t.Errorf("the replay is %q; what was shown was %q", again.shown(), before)
	}
	want := []string{"80x24@0", "60x20@5", fmt.Sprintf("90x30@%d", len(before))}
	if !slices.Equal(again.sizes, want) || again.live != len(before) || again.skipped != 0 {
		t.Errorf("sizes %v, live at %d, %d skipped; want %v, at %d, none", again.sizes, again.live, again.skipped, want, len(before))
	}
}

func terminalClean(ctx context.Context, t T, e *Env) {
	// A line is longer than what is kept; in its middle are sequences and characters.
	const text = `printf '\033[?2004h\033[?25l'; i=0; while test $i -lt 400; do printf '\342\202\254\342\202\254\033[31mred\033[m'; i=$((i+1)); done; read x`
	o := script(text)
	o.ScrollbackBytes = 1001
	s := e.open(ctx, t, o)
	s.await(ctx, t, "\x1b[?25l")
	if !within(ctx, 20*time.Second, func() bool { return strings.Count(s.shown(), "red") == 400 }) {
		t.Fatalf("%d of 400", strings.Count(s.shown(), "red"))
	}
	again := e.attachTo(ctx, t, e.Sandbox, s.ID())
	again.await(ctx, t, "red\x1b[m")
	again.enter(ctx, t, "\n")
	again.end(ctx, t, 0)
	s.end(ctx, t, 0)
	got := again.shown()
	modes, rest, ok := strings.Cut(got, "\x1b[?2004h")
	clean := strings.HasPrefix(rest, "€") || strings.HasPrefix(rest, "red")
	if !ok || !strings.Contains(modes, "\x1b[?25l") || !clean || len(rest) > 1001+len("\r\n") || len(rest) < 900 || !strings.HasSuffix(s.shown(), rest) {
		t.Errorf("the replay, %d bytes, begins %.80q", len(rest), got)
	}
}

// flood prints so many bytes, and a line at the end.
func flood(n int) string {
	return fmt.Sprintf(`head -c %d /dev/zero | tr '\0' y; echo; echo END`, n)
}

func terminalOfNobody(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script("read x; "+flood(4_000_000)+"; exit 4"))
	s.enter(ctx, t, "\n")
	s.Detach()
	<-s.over
	exit, err := s.Wait(ctx)
	if err != nil || exit.Code != 4 {
		t.Errorf("%v, %v; want status 4", exit, err)
	}
	again := e.attachTo(ctx, t, e.Sandbox, s.ID())
	again.end(ctx, t, 4)
	got := again.shown()
	if len(got) > spec.DefaultScrollbackBytes+256 || len(got) < spec.DefaultScrollbackBytes/2 || !strings.HasSuffix(got, "y\r\nEND\r\n") {
		t.Errorf("%d bytes are kept, at the end %q", len(got), got[max(len(got)-20, 0):])
	}
}

// slowly opens a terminal with a viewer who is told nothing yet.
func (e *Env) slowly(ctx context.Context, t T, o berth.TerminalOptions) *berth.Terminal {
	t.Helper()
	o.Env = map[string]string{markName: e.Mark}
	term, err := e.Sandbox.OpenTerminal(ctx, o)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	e.killAfter(e.Sandbox, term.ID())
	e.Cleanup(func(context.Context) error {
		term.Detach()
		return nil
	})
	return term
}

func terminalWaits(ctx context.Context, t T, e *Env) {
	const n = 6_000_000
	o := script(flood(n))
	o.ScrollbackBytes = 1000
	term := e.slowly(ctx, t, o)
	var steady int64
	held := within(ctx, 20*time.Second, func() bool {
		now := e.terminal(ctx, t, term.ID()).OutputBytes
		defer func() { steady = now }()
		return now > 0 && now == steady
	})
	if info := e.terminal(ctx, t, term.ID()); !held || !info.Running() || info.OutputBytes >= n {
		t.Errorf("%d bytes were written for a viewer who took none", info.OutputBytes)
	}
	s := e.look(term)
	s.end(ctx, t, 0)
	wantText(t, "output", []byte(s.shown()), string(bytes.Repeat([]byte{'y'}, n))+"\r\nEND\r\n")
	if s.skipped != 0 {
		t.Errorf("%d bytes were skipped", s.skipped)
	}
}

func terminalSlow(ctx context.Context, t T, e *Env) {
	const n = 4_000_000
	o := script("read x; " + flood(n))
	o.ScrollbackBytes = 100_000
	slow := e.slowly(ctx, t, o)
	fast := e.attachTo(ctx, t, e.Sandbox, slow.ID())
	fast.enter(ctx, t, "\n")
	fast.end(ctx, t, 0)
	want := "\r\n" + string(bytes.Repeat([]byte{'y'}, n)) + "\r\nEND\r\n"
	wantText(t, "the fast one's output", []byte(fast.shown()), want)
	s := e.look(slow)
	s.end(ctx, t, 0)
	got := s.shown()
	if s.skipped == 0 || fast.skipped != 0 {
		t.Errorf("%d and %d bytes were skipped", s.skipped, fast.skipped)
	}
	told := int64(strings.Count(got, "y")) + s.skipped
	if !strings.HasSuffix(got, "y\r\nEND\r\n") || told < n || told > int64(len(want)) || len(got) > 3_000_000 {
		t.Errorf("%d bytes, with %d times y, and %d skipped make no %d", len(got), strings.Count(got, "y"), s.skipped, len(want))
	}
}

func terminalTypists(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`stty -echo; echo ready; n=0; while test $n -lt 60; do read line; n=$((n+1)); echo "<$line>"; done`))
	s.await(ctx, t, "ready")
	views := []*screen{s, e.attachTo(ctx, t, e.Sandbox, s.ID()), e.attachTo(ctx, t, e.Sandbox, s.ID())}
	failed := make(chan error, len(views))
	for i, view := range views {
		go func() {
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				err = view.WriteContext(ctx, fmt.Appendf(nil, "viewer %d line %d\n", i, n))
			}
			failed <- err
		}()
	}
	for range views {
		if err := <-failed; err != nil {
			t.Errorf("type: %v", err)
		}
	}
	s.end(ctx, t, 0)
	for i := range views {
		at := 0
		for n := range 20 {
			line := fmt.Sprintf("<viewer %d line %d>\r\n", i, n)
			k := strings.Index(s.shown()[at:], line)
			if k < 0 {
				t.Fatalf("%q is torn, or not in order", line)
			}
			at += k
		}
	}
}

func terminalReadsNothing(ctx context.Context, t T, e *Env) {
	gate := e.file("gate")
	s := e.open(ctx, t, script(`stty -echo -icanon; echo ready; until test -e `+gate+`; do sleep 0.05; done; exec cat`))
	s.await(ctx, t, "ready\r\n")
	var typed []byte
	for i := 0; len(typed) < 100_000; i++ {
		typed = fmt.Appendf(typed, "%09d\n", i)
	}
	bound, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	if err := s.WriteContext(bound, typed); err == nil || bound.Err() == nil {
		t.Fatalf("write: %v; want the end of its ctx", err)
	}
	e.write(ctx, t, gate, nil, files.WriteOptions{})
	const rest = "the rest, "
	s.enter(ctx, t, strings.Repeat(rest, 5000))
	s.enter(ctx, t, "and the end")
	s.await(ctx, t, "and the end")
	s.enter(ctx, t, "\x03")
	s.end(ctx, t, 128+2)
	got := strings.TrimPrefix(strings.ReplaceAll(s.shown(), "\r\n", "\n"), "ready\n")
	first, _, _ := strings.Cut(got, rest)
	if !strings.HasPrefix(string(typed), first) {
		t.Errorf("%d bytes were taken, and are no beginning of what was typed", len(first))
	}
	if after := got[len(first):]; after != strings.Repeat(rest, 5000)+"and the end^C" && after != strings.Repeat(rest, 5000)+"and the end" {
		t.Errorf("then %d bytes were typed; want %d", len(after), 5000*len(rest))
	}
}

func terminalDetach(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`echo ready; read x; exit 6`))
	s.await(ctx, t, "ready")
	s.Detach()
	s.Detach()
	<-s.over
	wantError(t, "next", s.err, berth.ErrInvalid)
	_, err := s.Next(ctx)
	wantError(t, "next", err, berth.ErrInvalid)
	wantError(t, "write", s.WriteContext(ctx, []byte("x")), berth.ErrInvalid)
	if !within(ctx, 10*time.Second, func() bool { return e.terminal(ctx, t, s.ID()).Viewers == 0 }) {
		t.Errorf("%d viewers", e.terminal(ctx, t, s.ID()).Viewers)
	}
	again := e.attachTo(ctx, t, e.Sandbox, s.ID())
	again.enter(ctx, t, "\n")
	again.end(ctx, t, 6)
}

func terminalOutlives(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	first := e.openIn(ctx, t, sb, script(`echo begun; read x; echo "got $x"; exit 8`))
	first.await(ctx, t, "begun")
	first.enter(ctx, t, "he")
	if err := sb.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	<-first.over
	other := e.Attach(ctx, t, s.Key)
	again := e.attachTo(ctx, t, other, first.ID())
	again.enter(ctx, t, "llo\n")
	again.end(ctx, t, 8)
	wantText(t, "output", []byte(again.shown()), "begun\r\nhello\r\ngot hello\r\n")
}

func terminalReaped(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	term := e.openIn(ctx, t, sb, script("echo ready; sleep 300"))
	term.await(ctx, t, "ready")
	if err := e.Driver.Reap(ctx, s.Key, berth.ReapOptions{}); err != nil {
		t.Fatalf("reap: %v", err)
	}
	select {
	case <-term.over:
	case <-ctx.Done():
		t.Fatalf("the view does not end")
	}
}

func terminalCount(ctx context.Context, t T, e *Env) {
	for i := range spec.MaxTerminals {
		term, err := e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{Args: []string{"sleep", "300"}, Env: map[string]string{markName: e.Mark}})
		if err != nil {
			t.Fatalf("the terminal after %d: %v", i, err)
		}
		if want := fmt.Sprintf("term-%d", i+1); term.ID() != want {
			t.Errorf("%s; want %s", term.ID(), want)
		}
		term.Detach()
	}
	_, err := e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{Args: []string{"sleep", "300"}})
	wantError(t, "one more", err, berth.ErrUnavailable)
	if _, err := e.Sandbox.KillTerminal(ctx, "term-7", -1); err != nil {
		t.Errorf("kill: %v", err)
	}
	term, err := e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{Args: []string{"true"}})
	if err != nil || term.ID() != "term-65" {
		t.Fatalf("%v; want term-65", err)
	}
	term.Detach()
	list, err := e.Sandbox.Terminals(ctx)
	if err != nil || len(list) != spec.MaxTerminals+1 || list[6].Running() {
		t.Errorf("%d terminals, %v", len(list), err)
	}
}
