package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// mixedCases are about a place that many clients use for everything at once.
func mixedCases() []Case {
	return []Case{
		{Name: "MixedWork", Rule: "Many clients work in one place at once, come and go and kill: no result is lost or another's, each end is told once, and nothing is left of it.", Need: all(needKeyed, needShell), Run: mixedWork},
	}
}

// How many clients there are, and for how long they work without a soak.
const (
	mixedClients = 16
	mixedShort   = 5 * time.Second
)

// mixed is one run of mixed work.
type mixed struct {
	e     *Env
	key   spec.Key
	guest int             // its pid; 0: not known
	done  [7]atomic.Int64 // how often each kind of work was done
	mu    sync.Mutex
	wrong []error
}

func (m *mixed) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, err)
}

func mixedWork(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	m := &mixed{e: e, key: s.Key}
	m.guest = m.guestPID(ctx, sb)
	span := mixedShort
	if e.Options.Soak {
		span = e.Options.Timeout / 2
	}
	m.work(ctx, span/4) // what is kept of ended commands is there from then on
	before := m.quiet(ctx, t, sb)
	told := m.listen(ctx, sb)
	m.work(ctx, span)
	after := m.quiet(ctx, t, sb)
	for i, err := range m.wrong {
		if i == 10 {
			t.Errorf("... %d more", len(m.wrong)-i)
			break
		}
		t.Errorf("%v", err)
	}
	if err := told(); err != nil {
		t.Errorf("events: %v", err)
	}
	var counts []string
	for i := range m.done {
		counts = append(counts, strconv.FormatInt(m.done[i].Load(), 10))
	}
	t.Logf("done: %s; the guest before %+v, after %+v", strings.Join(counts, " "), before, after)
	// A guest keeps up to 8 empty control groups for the next commands, with 3 descriptors each.
	const memory, descriptors = 64 << 20, 8*3 + 8
	if after.memory > before.memory+memory {
		t.Errorf("the guest has grown from %d to %d MiB", before.memory>>20, after.memory>>20)
	}
	if after.descriptors > before.descriptors+descriptors {
		t.Errorf("the guest had %d descriptors and has %d", before.descriptors, after.descriptors)
	}
}

// work has all clients work for a while, and returns when they have left.
func (m *mixed) work(ctx context.Context, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, m.e.Options.Timeout)
	defer cancel()
	until := time.Now().Add(span)
	var clients sync.WaitGroup
	for n := range mixedClients {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(span)))
			for time.Now().Before(until) && ctx.Err() == nil {
				if err := m.visit(ctx, rng, until); err != nil {
					m.fail(fmt.Errorf("client %d: %w", n, err))
					return
				}
			}
		})
	}
	clients.Wait()
}

// visit is one client that comes, works a while and leaves.
func (m *mixed) visit(ctx context.Context, rng *rand.Rand, until time.Time) error {
	d, err := m.e.Options.Open()
	if err != nil {
		return err
	}
	sb, err := berth.Attach(ctx, d, m.key)
	if err != nil {
		return err
	}
	c := &mixedClient{m: m, sb: sb, rng: rng, name: "mixed-" + randomHex()}
	works := []func(context.Context) error{c.exec, c.keyed, c.files, c.kill, c.timeout}
	if m.e.Caps.Jobs != spec.JobsNone {
		works = append(works, c.job)
	}
	if m.e.Caps.Terminals {
		works = append(works, c.terminal)
	}
	for left := 5 + rng.IntN(20); left > 0 && time.Now().Before(until) && ctx.Err() == nil; left-- {
		n := rng.IntN(len(works))
		if err := works[n](ctx); err != nil {
			_ = sb.Close(ctx)
			return fmt.Errorf("work %d: %w", n, err)
		}
		m.done[n].Add(1)
	}
	return sb.Close(ctx)
}

// mixedClient is a client at work.
type mixedClient struct {
	m    *mixed
	sb   *berth.Sandbox
	rng  *rand.Rand
	name string
}

func (c *mixedClient) bytes(most int) []byte {
	return noise(c.rng.IntN(most), c.rng.Uint64())
}

// options are those of a command of the case.
func (c *mixedClient) options(o berth.ExecOptions) berth.ExecOptions {
	o.MaxOutputBytes = 4 << 20
	return c.m.e.marked(o)
}

// exec sends bytes through a command and wants them and its status back.
func (c *mixedClient) exec(ctx context.Context) error {
	in, code := c.bytes(200_000), c.rng.IntN(100)
	r, err := c.sb.Exec(ctx, berth.Shell(fmt.Sprintf("cat; echo %s >&2; exit %d", c.name, code)), c.options(berth.ExecOptions{Stdin: bytes.NewReader(in)}))
	switch {
	case err != nil:
		return err
	case !bytes.Equal(r.Stdout, in) || string(r.Stderr) != c.name+"\n" || r.ExitCode != code:
		return fmt.Errorf("%d bytes come back of %d, %q, code %d; want %d", len(r.Stdout), len(in), r.Stderr, r.ExitCode, code)
	}
	return nil
}

// keyed asks for one command from several sides at once and wants one answer.
func (c *mixedClient) keyed(ctx context.Context) error {
	key, file := "key-"+randomHex(), c.name+"-ran"
	const askers = 3
	errs := make(chan error, askers)
	for range askers {
		go func() {
			r, err := c.sb.Exec(ctx, berth.Shell("echo ran >>"+file+"; echo "+key+"; exit 4"), c.options(berth.ExecOptions{Key: key}))
			if err == nil && (string(r.Stdout) != key+"\n" || r.ExitCode != 4) {
				err = fmt.Errorf("%q, code %d under one key", r.Stdout, r.ExitCode)
			}
			errs <- err
		}()
	}
	var err error
	for range askers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	err = untilAnswered(ctx, func() error {
		ran, err := c.sb.Files().ReadFile(ctx, file)
		if err == nil && string(ran) != "ran\n" {
			err = fmt.Errorf("it ran as %q", ran)
		}
		return err
	})
	return errors.Join(err, c.remove(ctx, file))
}

// untilAnswered does what may be repeated until its answer is not lost on the way.
func untilAnswered(ctx context.Context, do func() error) error {
	for {
		err := do()
		if ctx.Err() != nil || !errors.Is(err, spec.ErrUnknownOutcome) && !errors.Is(err, spec.ErrUnavailable) {
			return err
		}
	}
}

// remove removes a file, which is missing if an answer was lost.
func (c *mixedClient) remove(ctx context.Context, name string) error {
	first := true
	return untilAnswered(ctx, func() error {
		err := c.sb.Files().Remove(ctx, name, files.RemoveOptions{})
		if !first && errors.Is(err, spec.ErrFileNotFound) {
			return nil
		}
		first = false
		return err
	})
}

// files writes, moves, reads and removes a file.
func (c *mixedClient) files(ctx context.Context) error {
	f, data, name := c.sb.Files(), c.bytes(300_000), c.name+"-file"
	if err := untilAnswered(ctx, func() error { return f.WriteFile(ctx, name, data, files.WriteOptions{}) }); err != nil {
		return err
	}
	moved, first := name+"2", true
	err := untilAnswered(ctx, func() error {
		err := f.Rename(ctx, name, moved, files.RenameOptions{Overwrite: true})
		if !first && errors.Is(err, spec.ErrFileNotFound) {
			return nil
		}
		first = false
		return err
	})
	if err != nil {
		return err
	}
	err = untilAnswered(ctx, func() error {
		got, err := f.ReadFile(ctx, moved)
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("%d bytes are read of %d written", len(got), len(data))
		}
		return err
	})
	return errors.Join(err, c.remove(ctx, moved))
}

// kill ends a command in one of three ways.
func (c *mixedClient) kill(ctx context.Context) error {
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := c.sb.CommandContext(life, "/bin/sh", "-c", "echo ready; sleep 300; :")
	cmd.Env, cmd.WaitDelay, cmd.Key = []string{markName + "=" + c.m.e.Mark}, -1, "kill-"+randomHex()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		return fmt.Errorf("its first line: %w", err)
	}
	way := c.rng.IntN(3)
	switch way {
	case 0:
		err = cmd.Kill(ctx)
	case 1:
		_, err = c.sb.Terminate(ctx, cmd.Key, -1)
		if errors.Is(err, spec.ErrUnsupported) {
			err = cmd.Kill(ctx)
		}
	default:
		cancel()
	}
	if err != nil {
		return err
	}
	var exit *berth.ExitError
	switch err := cmd.Wait(); {
	case way == 2 && errors.Is(err, context.Canceled):
	case way < 2 && errors.As(err, &exit) && exit.Signal == int(spec.SIGKILL):
	default:
		return fmt.Errorf("it was ended, and ends with %w", err)
	}
	return nil
}

// timeout wants a timeout to be one.
func (c *mixedClient) timeout(ctx context.Context) error {
	r, err := c.sb.Exec(ctx, berth.Shell("echo so far; sleep 300; :"), c.options(berth.ExecOptions{Timeout: 300 * time.Millisecond, Grace: -1}))
	if err == nil && !r.TimedOut {
		err = fmt.Errorf("code %d, not timed out", r.ExitCode)
	}
	return err
}

// job runs a job, which is read to its end and waited for.
func (c *mixedClient) job(ctx context.Context) error {
	lines := c.rng.IntN(200)
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo %s $i; i=$((i+1)); done; exit 6", lines, c.name)
	j, err := c.sb.Jobs(c.name).Start(ctx, berth.Shell(script), berth.JobOptions{Key: "job-" + randomHex(), Env: map[string]string{markName: c.m.e.Mark}})
	if err != nil {
		return err
	}
	log, err := j.OpenLog(ctx, berth.LogWindow{Follow: true})
	if err != nil {
		return err
	}
	defer log.Close()
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%s %d\n", c.name, i)
	}
	if got, err := io.ReadAll(log); err != nil || string(got) != want.String() {
		return fmt.Errorf("a log of %d bytes, %w; want %d", len(got), err, want.Len())
	}
	info, err := j.Wait(ctx)
	if err == nil && (info.State != berth.JobExited || info.Exit.Code != 6) {
		err = fmt.Errorf("%s is %s, code %d", info.ID, info.State, info.Exit.Code)
	}
	return err
}

// terminal types into a terminal and wants the status that it is told.
func (c *mixedClient) terminal(ctx context.Context) error {
	term, err := c.sb.OpenTerminal(ctx, berth.TerminalOptions{Args: berth.Shell("read -r code; exit $code")})
	if err != nil {
		return err
	}
	defer term.Detach()
	if err := term.WriteContext(ctx, []byte("7\n")); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, term); err != nil {
		return err
	}
	exit, err := term.Wait(ctx)
	if err == nil && exit.Code != 7 {
		err = fmt.Errorf("a terminal ends with %s", exit)
	}
	return err
}

// heard is what somebody who follows the events of mixed work has been told.
type heard struct {
	last, missed int64
	state        map[string]spec.EventKind // of each command
}

// hear takes an event, which has to be the next, and of a command the right one.
func (h *heard) hear(e berth.Event) error {
	passed := int64(1)
	if e.Kind == spec.EventMissed {
		passed = e.Count
		h.missed += e.Count
	}
	if e.Seq != h.last+passed {
		return fmt.Errorf("event %d comes after %d", e.Seq, h.last)
	}
	h.last = e.Seq
	was := h.state[e.ID]
	switch e.Kind {
	case spec.EventCommandBegun:
		if was != "" {
			return fmt.Errorf("%s begins, after %s", e.ID, was)
		}
	case spec.EventCommandEnded:
		if was != spec.EventCommandBegun && h.missed == 0 {
			return fmt.Errorf("%s ends, after %q", e.ID, was)
		}
	default:
		return nil
	}
	h.state[e.ID] = e.Kind
	return nil
}

// marker is a file that is written when the work is over.
const marker = "mixed-work-is-over"

// listen follows what happens until the function that it returns is called, after the
// work, which says what was wrong with that.
func (m *mixed) listen(ctx context.Context, sb *berth.Sandbox) func() error {
	if !m.e.Caps.Events {
		return func() error { return nil }
	}
	h := &heard{state: map[string]spec.EventKind{}}
	done := make(chan error, 1)
	go func() {
		for e, err := range sb.Events(ctx, spec.EventQuery{Follow: true}) {
			if err == nil {
				err = h.hear(e)
			}
			if err != nil || e.Path == marker {
				done <- err
				return
			}
		}
		done <- errors.New("they end")
	}()
	return func() error {
		err := untilAnswered(ctx, func() error { return sb.Files().WriteFile(ctx, marker, nil, files.WriteOptions{}) })
		if err == nil {
			err = <-done
		}
		for id, kind := range h.state {
			if kind == spec.EventCommandBegun && h.missed == 0 && err == nil {
				err = fmt.Errorf("the end of %s is not told", id)
			}
		}
		return err
	}
}

// guestUse is what a guest takes, as far as it can be seen from inside: 0 where it cannot.
type guestUse struct{ memory, descriptors int64 }

// quiet waits until nothing runs any more, and looks at what the guest takes.
func (m *mixed) quiet(ctx context.Context, t T, sb *berth.Sandbox) guestUse {
	t.Helper()
	var st berth.Status
	if !m.e.Eventually(ctx, func() bool {
		var err error
		st, err = sb.Status(ctx)
		return err == nil && st.Commands == 0 && st.Clients == 1
	}) {
		t.Errorf("after the work there are %d commands and %d clients", st.Commands, st.Clients)
	}
	if left := m.e.Marked(ctx, t, sb, m.e.Mark); len(left) > 0 {
		t.Errorf("processes are left: pids %v", left)
	}
	var list []files.Info
	err := untilAnswered(ctx, func() (err error) {
		list, err = sb.Files().ReadDir(ctx, ".")
		return err
	})
	if err != nil {
		t.Errorf("list: %v", err)
	}
	for _, f := range list {
		if strings.HasPrefix(f.Name, "mixed-") || strings.HasPrefix(f.Name, ".berth-") {
			t.Errorf("the file %s is left", f.Name)
		}
	}
	var use guestUse
	if m.guest == 0 {
		return use
	}
	look := `while read -r name n x; do [ "$name" = VmRSS: ] && echo $n; done </proc/%d/status; set -- /proc/%[1]d/fd/*; echo $#`
	if r, err := sb.Exec(ctx, berth.Shell(fmt.Sprintf(look, m.guest)), berth.ExecOptions{}); err == nil {
		_, _ = fmt.Sscan(string(r.Stdout), &use.memory, &use.descriptors)
		use.memory <<= 10
	}
	return use
}

// guestPID is the guest's, as its first event says; 0: it tells none.
func (m *mixed) guestPID(ctx context.Context, sb *berth.Sandbox) int {
	for ev, err := range sb.Events(ctx, spec.EventQuery{}) {
		if err == nil && ev.Kind == spec.EventStarted {
			return ev.PID
		}
		break
	}
	return 0
}
