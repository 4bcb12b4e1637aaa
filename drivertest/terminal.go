package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func needTerminals(c spec.Caps) string {
	if !c.Terminals {
		return "terminals"
	}
	return ""
}

// terminalCases are about terminals: what a program finds there.
func terminalCases() []Case {
	shell := all(needTerminals, needShell)
	return []Case{
		{Name: "TerminalIsReal", Rule: "A program on a terminal has it as its streams and as its controlling terminal, of the size that was asked for.", Need: shell, Run: terminalReal},
		{Name: "TerminalIsALoginShell", Rule: "Without Args it is the login shell of the place's user: its name begins with a dash, and its status is the terminal's.", Need: shell, Run: terminalLogin},
		{Name: "TerminalEnvironment", Rule: "Env is added, UnsetEnv taken away, TERM is xterm-256color unless given, and Dir is where it starts.", Need: shell, Run: terminalEnviron},
		{Name: "TerminalUser", Rule: "User is as in a command, and the terminal is that user's.", Need: all(shell, needCommandUser), Run: terminalUser},
		{Name: "TerminalOptionsAreChecked", Rule: "What cannot be meant is invalid before anything runs; what cannot be started is start_failed or invalid_path, and no terminal is left of it.", Need: needTerminals, Run: terminalOptions},
		{Name: "TerminalWithoutAShell", Rule: "Any program can run on a terminal; a place without a shell refuses a login shell with start_failed.", Need: all(needTerminals, needRaw), Run: terminalPlain},
		{Name: "TerminalEditsLines", Rule: "What is typed is echoed and edited as lines, as on any terminal.", Need: shell, Run: terminalLines},
		{Name: "TerminalInterrupt", Rule: "Ctrl-C reaches the foreground of the terminal as SIGINT.", Need: shell, Run: terminalInterrupt},
		{Name: "TerminalResize", Rule: "Resize is told to the program and to all viewers at that point of the output; to set the present size has the program told again.", Need: shell, Run: terminalResize},
		{Name: "TerminalLastByte", Rule: "The output is whole to its last byte, though the program ends right after writing it.", Need: shell, Run: terminalLastByte},
		{Name: "TerminalEndIsKnownToAll", Rule: "Every viewer is told the end, after the last byte, and what became of the program; the record stays.", Need: shell, Run: terminalEnd},
		{Name: "TerminalAfterItsEnd", Rule: "Of a terminal that has ended Resize does nothing, what is typed is dropped, and to kill it is no error; it is replayed.", Need: shell, Run: terminalAfter},
		{Name: "TerminalDoesNotWaitForTheBackground", Rule: "What is left in the background does not hold up the end of a terminal.", Need: shell, Run: terminalBackground},
		{Name: "TerminalKillEndsTheTree", Rule: "KillTerminal ends the whole tree, a shell that heeds no TERM by HUP.", Need: shell, Run: terminalKill},
		{Name: "TerminalUnknown", Rule: "A terminal that is unknown is not_found to every call.", Need: needTerminals, Run: terminalUnknown},
		{Name: "TerminalJob", Rule: "A job with Terminal runs on one, with stderr in its log too; one without has none.", Need: all(shell, needJobs), Run: terminalJob},
		{Name: "TerminalKeepsThePlaceFromIdling", Rule: "A running terminal counts as a running command.", Need: all(shell, needKeyed), Run: terminalIdle},
	}
}

// screen is what one viewer has been told so far.
type screen struct {
	*berth.Terminal

	mu      sync.Mutex
	text    []byte
	sizes   []string // "80x24@0": each with the offset in text
	live    int      // the offset in text; -1: not yet
	skipped int64
	err     error // why there is no more
	over    chan struct{}
}

// open opens a terminal that carries the case's mark and is killed after it.
func (e *Env) open(ctx context.Context, t T, o berth.TerminalOptions) *screen {
	t.Helper()
	return e.openIn(ctx, t, e.Sandbox, o)
}

func (e *Env) openIn(ctx context.Context, t T, sb *berth.Sandbox, o berth.TerminalOptions) *screen {
	t.Helper()
	env := map[string]string{markName: e.Mark}
	for name, value := range o.Env {
		env[name] = value
	}
	o.Env = env
	term, err := sb.OpenTerminal(ctx, o)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	e.killAfter(sb, term.ID())
	return e.look(term)
}

// killAfter kills a terminal after the case, unless its place is gone by then.
func (e *Env) killAfter(sb *berth.Sandbox, id string) {
	e.Cleanup(func(ctx context.Context) error {
		if _, err := sb.KillTerminal(ctx, id, -1); !errors.Is(err, berth.ErrNotFound) {
			return err
		}
		return nil
	})
}

// attachTo adds a viewer to a terminal.
func (e *Env) attachTo(ctx context.Context, t T, sb *berth.Sandbox, id string) *screen {
	t.Helper()
	term, err := sb.AttachTerminal(ctx, id)
	if err != nil {
		t.Fatalf("attach to a terminal: %v", err)
	}
	return e.look(term)
}

// look takes what a view tells, until its end or that of the case.
func (e *Env) look(term *berth.Terminal) *screen {
	s := &screen{Terminal: term, live: -1, over: make(chan struct{})}
	e.Cleanup(func(context.Context) error {
		term.Detach()
		<-s.over
		return nil
	})
	go s.follow()
	return s
}

func (s *screen) follow() {
	defer close(s.over)
	for {
		e, err := s.Next(context.Background())
		s.mu.Lock()
		switch {
		case err != nil:
			s.err = err
		case e.Data != nil:
			s.text = append(s.text, e.Data...)
		case e.Skipped > 0:
			s.skipped += e.Skipped
		case e.Live:
			s.live = len(s.text)
		default:
			s.sizes = append(s.sizes, fmt.Sprintf("%dx%d@%d", e.Size.Cols, e.Size.Rows, len(s.text)))
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// shown is the output so far.
func (s *screen) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// await waits until text has been shown.
func (s *screen) await(ctx context.Context, t T, text string) {
	t.Helper()
	if !within(ctx, 20*time.Second, func() bool { return strings.Contains(s.shown(), text) }) {
		shown := s.shown()
		t.Fatalf("the terminal does not show %q but, at its end, %q", text, shown[max(len(shown)-400, 0):])
	}
}

// end waits for the end of the output, and wants a status.
func (s *screen) end(ctx context.Context, t T, code int) {
	t.Helper()
	exit, err := s.Wait(ctx)
	if err != nil || exit.Code != code {
		t.Errorf("%v, %v; want exit status %d", exit, err, code)
	}
	select {
	case <-s.over:
	case <-ctx.Done():
		t.Fatalf("the view does not end")
	}
	if !errors.Is(s.err, io.EOF) {
		t.Errorf("the view ends with %v; want EOF", s.err)
	}
}

// enter types text; a failure is fatal.
func (s *screen) enter(ctx context.Context, t T, text string) {
	t.Helper()
	if err := s.WriteContext(ctx, []byte(text)); err != nil {
		t.Fatalf("type %.40q: %v", text, err)
	}
}

// script is the options of a terminal that runs a script.
func script(text string) berth.TerminalOptions {
	return berth.TerminalOptions{Args: berth.Shell(text)}
}

func terminalReal(ctx context.Context, t T, e *Env) {
	o := script(`test -t 0 && test -t 1 && test -t 2 && echo all; : </dev/tty && echo controlling; stty size; echo error >&2`)
	o.Size = berth.TerminalSize{Cols: 101, Rows: 33}
	s := e.open(ctx, t, o)
	s.end(ctx, t, 0)
	wantText(t, "output", []byte(s.shown()), "all\r\ncontrolling\r\n33 101\r\nerror\r\n")
	if want := []string{"101x33@0"}; !slices.Equal(s.sizes, want) || s.live != 0 || s.skipped != 0 {
		t.Errorf("sizes %v, live at %d, %d skipped; want %v, at 0, none", s.sizes, s.live, s.skipped, want)
	}
	if s = e.open(ctx, t, script("stty size")); s.ID() == "" {
		t.Errorf("no id")
	}
	s.end(ctx, t, 0)
	wantText(t, "the default size", []byte(s.shown()), "24 80\r\n")
}

func terminalLogin(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, berth.TerminalOptions{})
	s.enter(ctx, t, "echo \"name=<$0>\"; exit 3\n")
	s.end(ctx, t, 3)
	if !strings.Contains(s.shown(), "name=<-") {
		t.Errorf("the shell's name does not begin with a dash: %q", s.shown())
	}
}

func terminalEnviron(ctx context.Context, t T, e *Env) {
	dir := e.file("dir")
	if err := e.Sandbox.Files().Mkdir(ctx, dir, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	o := script(`echo "$TERM $ADDED $KEPT"; pwd`)
	o.Dir, o.Env, o.UnsetEnv = dir, map[string]string{"ADDED": "yes", "KEPT": "1"}, []string{"KEPT", "NEVER"}
	s := e.open(ctx, t, o)
	s.end(ctx, t, 0)
	if got := s.shown(); !strings.HasPrefix(got, "xterm-256color yes 1\r\n/") || !strings.HasSuffix(got, "/"+dir+"\r\n") {
		t.Errorf("%q", got)
	}
	o = berth.TerminalOptions{Args: []string{"env"}, Env: map[string]string{"TERM": "dumb"}, UnsetEnv: []string{"HOME"}}
	s = e.open(ctx, t, o)
	s.end(ctx, t, 0)
	if got := s.shown(); !strings.Contains(got, "TERM=dumb\r\n") || strings.Contains(got, "xterm") || strings.Contains(got, "\nHOME=") {
		t.Errorf("%q", got)
	}
}

func terminalUser(ctx context.Context, t T, e *Env) {
	o := script(`id -u; : <"$(tty)" && echo open`)
	o.User, o.Dir = "12345", "/"
	s := e.open(ctx, t, o)
	s.end(ctx, t, 0)
	wantText(t, "output", []byte(s.shown()), "12345\r\nopen\r\n")
}

func terminalOptions(ctx context.Context, t T, e *Env) {
	before, err := e.Sandbox.Terminals(ctx)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for name, test := range map[string]struct {
		o    berth.TerminalOptions
		want spec.Code
	}{
		"size":       {berth.TerminalOptions{Size: berth.TerminalSize{Cols: spec.MaxTerminalSide + 1, Rows: 1}}, spec.CodeInvalid},
		"scrollback": {berth.TerminalOptions{ScrollbackBytes: -1}, spec.CodeInvalid},
		"unset":      {berth.TerminalOptions{UnsetEnv: []string{"A=B"}}, spec.CodeInvalid},
		"env":        {berth.TerminalOptions{Env: map[string]string{"A-B": ""}}, spec.CodeInvalid},
		"program":    {berth.TerminalOptions{Args: []string{"/no/such/program"}}, spec.CodeStartFailed},
		"dir":        {berth.TerminalOptions{Args: []string{"/x"}, Dir: "no-such-dir"}, spec.CodeInvalidPath},
	} {
		if _, err := e.Sandbox.OpenTerminal(ctx, test.o); spec.CodeOf(err) != test.want {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
	}
	after, err := e.Sandbox.Terminals(ctx)
	known := func(list []berth.TerminalInfo, id string) bool {
		return slices.ContainsFunc(list, func(i berth.TerminalInfo) bool { return i.ID == id })
	}
	for _, i := range after {
		if !known(before, i.ID) && i.Name == "/no/such/program" {
			t.Errorf("%+v is left", i)
		}
	}
	if err != nil {
		t.Errorf("list: %v", err)
	}
}

func terminalPlain(ctx context.Context, t T, e *Env) {
	const windowSize = 0x5413 // TIOCGWINSZ
	text := "here\n"
	program := e.program(ctx, t,
		rawcall.Call{Number: rawcall.Ioctl, Args: []rawcall.Arg{rawcall.Int(0), rawcall.Int(windowSize), rawcall.Bytes(make([]byte, 8))}},
		rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.String(text), rawcall.Int(int64(len(text)))}},
	)
	s := e.open(ctx, t, berth.TerminalOptions{Args: []string{program}})
	exit, err := s.Wait(ctx)
	if err != nil || exit.Signal != 0 {
		t.Errorf("%v, %v", exit, err)
	}
	s.await(ctx, t, "here\r\n")
	if !e.Caps.Shell {
		_, err = e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{})
		wantError(t, "a login shell", err, berth.ErrStartFailed)
	}
}

func terminalLines(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, berth.TerminalOptions{Args: []string{"cat"}})
	s.enter(ctx, t, "abx\x7fc\n")
	s.await(ctx, t, "\nabc\r\n")
	s.enter(ctx, t, "\x04")
	s.end(ctx, t, 0)
	if got := s.shown(); !strings.HasPrefix(got, "abx\b \bc\r\nabc\r\n") {
		t.Errorf("%q", got)
	}
}

func terminalInterrupt(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done`))
	s.await(ctx, t, "ready")
	s.enter(ctx, t, "\x03")
	s.end(ctx, t, 7)
	if !strings.Contains(s.shown(), "interrupted\r\n") {
		t.Errorf("%q", s.shown())
	}
	s = e.open(ctx, t, berth.TerminalOptions{Args: []string{"sleep", "300"}})
	s.enter(ctx, t, "\x03")
	s.end(ctx, t, 128+2)
}

func terminalResize(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done`))
	other := e.attachTo(ctx, t, e.Sandbox, s.ID())
	s.await(ctx, t, "ready\r\n")
	other.await(ctx, t, "ready\r\n")
	if err := s.Resize(ctx, berth.TerminalSize{Cols: 77, Rows: 22}); err != nil {
		t.Fatalf("resize: %v", err)
	}
	s.await(ctx, t, "22 77\r\n")
	if err := other.Resize(ctx, berth.TerminalSize{Cols: 77, Rows: 22}); err != nil {
		t.Fatalf("resize: %v", err)
	}
	s.await(ctx, t, "22 77\r\n22 77\r\n")
	wantError(t, "a size that cannot be", s.Resize(ctx, berth.TerminalSize{Cols: -1, Rows: 22}), berth.ErrInvalid)
	other.await(ctx, t, "22 77\r\n22 77\r\n")
	for _, view := range []*screen{s, other} {
		view.mu.Lock()
		sizes := slices.Clone(view.sizes)
		view.mu.Unlock()
		if want := []string{"80x24@0", "77x22@7"}; !slices.Equal(sizes, want) {
			t.Errorf("sizes %v; want %v", sizes, want)
		}
	}
}

func terminalLastByte(ctx context.Context, t T, e *Env) {
	const n = 1_000_000
	for range 3 {
		s := e.open(ctx, t, script(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo END`, n)))
		s.end(ctx, t, 0)
		want := bytes.Repeat([]byte{'x'}, n)
		wantText(t, "output", []byte(s.shown()), string(want)+"\r\nEND\r\n")
	}
}

func terminalEnd(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script(`read line; echo "got $line"; kill -9 $$`))
	others := []*screen{e.attachTo(ctx, t, e.Sandbox, s.ID()), e.attachTo(ctx, t, e.Sandbox, s.ID())}
	if info := e.terminal(ctx, t, s.ID()); !info.Running() || info.Viewers != 3 || info.PID <= 0 || info.Name != "/bin/sh" {
		t.Errorf("%+v; want one that runs, with three viewers", info)
	}
	others[0].enter(ctx, t, "word\n")
	for _, view := range append(others, s) {
		view.end(ctx, t, 128+9)
		if !strings.HasSuffix(view.shown(), "got word\r\n") {
			t.Errorf("%q", view.shown())
		}
	}
	info := e.terminal(ctx, t, s.ID())
	if info.Running() || info.Exit.Signal != 9 || info.Ended.Before(info.Started) || info.OutputBytes != int64(len(s.shown())) || info.ScrollbackBytes != info.OutputBytes {
		t.Errorf("%+v", info)
	}
}

// terminal describes one terminal of the place.
func (e *Env) terminal(ctx context.Context, t T, id string) berth.TerminalInfo {
	t.Helper()
	list, err := e.Sandbox.Terminals(ctx)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	i := slices.IndexFunc(list, func(i berth.TerminalInfo) bool { return i.ID == id })
	if i < 0 {
		t.Fatalf("%s is not listed", id)
	}
	return list[i]
}

func terminalAfter(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, script("echo done; exit 5"))
	s.end(ctx, t, 5)
	if err := s.Resize(ctx, berth.TerminalSize{Cols: 10, Rows: 10}); err != nil {
		t.Errorf("resize: %v", err)
	}
	s.enter(ctx, t, "dropped\n")
	s.enter(ctx, t, "dropped too\n")
	info, err := e.Sandbox.KillTerminal(ctx, s.ID(), 0)
	if err != nil || info.Exit.Code != 5 || info.Size != (berth.TerminalSize{Cols: 80, Rows: 24}) {
		t.Errorf("kill: %+v, %v", info, err)
	}
	again := e.attachTo(ctx, t, e.Sandbox, s.ID())
	again.end(ctx, t, 5)
	wantText(t, "the replay", []byte(again.shown()), "done\r\n")
	if again.live != len("done\r\n") {
		t.Errorf("live at %d", again.live)
	}
}

func terminalBackground(ctx context.Context, t T, e *Env) {
	began := time.Now()
	s := e.open(ctx, t, script(`trap '' HUP; sleep 300 & echo started`))
	s.end(ctx, t, 0)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the end took %v", took)
	}
	wantText(t, "output", []byte(s.shown()), "started\r\n")
	e.endMarked(ctx, t)
}

func terminalKill(ctx context.Context, t T, e *Env) {
	s := e.open(ctx, t, berth.TerminalOptions{Args: []string{"/bin/sh", "-i"}})
	s.enter(ctx, t, "sleep 300 & sleep 301 & echo rea''dy; sleep 302\n")
	s.await(ctx, t, "ready\r\n")
	began := time.Now()
	info, err := e.Sandbox.KillTerminal(ctx, s.ID(), 20*time.Second)
	if err != nil || info.Running() || info.Exit.Kill == spec.KillNone {
		t.Errorf("kill: %+v, %v", info, err)
	}
	if took := time.Since(began); took > 18*time.Second {
		t.Errorf("it took %v: HUP was not heeded", took)
	}
	select {
	case <-s.over:
	case <-ctx.Done():
		t.Fatalf("the view does not end")
	}
	e.WaitGone(ctx, t)
	s = e.open(ctx, t, script(`trap '' HUP TERM INT; echo ready; while :; do sleep 0.05; done`))
	s.await(ctx, t, "ready")
	if info, err = e.Sandbox.KillTerminal(ctx, s.ID(), -1); err != nil || info.Exit.Signal != 9 {
		t.Errorf("kill: %+v, %v", info, err)
	}
	e.WaitGone(ctx, t)
}

func terminalUnknown(ctx context.Context, t T, e *Env) {
	for _, id := range []string{"term-999999", "", "job-1", "../x"} {
		_, err := e.Sandbox.AttachTerminal(ctx, id)
		wantError(t, "attach", err, berth.ErrNotFound)
		_, err = e.Sandbox.KillTerminal(ctx, id, 0)
		wantError(t, "kill", err, berth.ErrNotFound)
	}
}

func terminalJob(ctx context.Context, t T, e *Env) {
	const text = `test -t 0 && test -t 1 && test -t 2 && stty size; echo out; echo error >&2; test -t 1 || test -t 0 || echo none; read x </dev/null; exit 0`
	jobs := e.jobs()
	j, info := e.runJob(ctx, t, jobs, text, berth.JobOptions{Terminal: &berth.TerminalSize{Cols: 44, Rows: 11}})
	if !info.Terminal || info.Exit.Code != 0 {
		t.Errorf("%+v", info)
	}
	wantText(t, "log", e.log(ctx, t, j), "11 44\r\nout\r\nerror\r\n")
	j, info = e.runJob(ctx, t, jobs, text, berth.JobOptions{})
	if info.Terminal {
		t.Errorf("%+v", info)
	}
	wantText(t, "log", e.log(ctx, t, j), "out\nerror\nnone\n")
}

func terminalIdle(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.IdleTimeout = time.Second
	sb := e.Provision(ctx, t, s)
	term := e.openIn(ctx, t, sb, script("sleep 300"))
	term.Detach()
	status, err := sb.Status(ctx)
	if err != nil || status.Commands != 1 {
		t.Errorf("%d commands, %v; want 1", status.Commands, err)
	}
	if err := sb.Detach(ctx); err != nil {
		t.Errorf("detach: %v", err)
	}
	time.Sleep(2 * s.IdleTimeout)
	again := e.Attach(ctx, t, s.Key)
	list, err := again.Terminals(ctx)
	if err != nil || len(list) != 1 || !list[0].Running() {
		t.Errorf("%+v, %v; want one that runs", list, err)
	}
}
