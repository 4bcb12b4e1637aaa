package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

func needEvents(c spec.Caps) string {
	if !c.Events {
		return "events"
	}
	return ""
}

// eventCases are about what a place tells of what happens to it.
func eventCases() []Case {
	return []Case{
		{Name: "EventsAreUnsupportedWhereNotDeclared", Rule: "Without Caps.Events the stream is unsupported.", Need: needNoEvents, Run: eventsNone},
		{Name: "EventsTellACommand", Rule: "The guest's start is the first event; a command begins with argv, pid and key, and ends with the Exit that Wait returns; all of it under the name of its session.", Need: all(needEvents, needShell), Own: true, Run: eventsCommand},
		{Name: "EventsComeOnceAndInOrder", Rule: "Every listener is told each event once, in one order, whoever causes them; what has ended for its caller has its event already.", Need: all(needEvents, needShell), Own: true, Run: eventsOrder},
		{Name: "EventsGoOnAfterANumber", Rule: "After is the last Seq that is known already: what follows it is told; a number that none has yet counts as 0.", Need: all(needEvents, needShell), Own: true, Run: eventsAfter},
		{Name: "EventsTellFiles", Rule: "What the file API writes, makes, changes, moves and removes is told by name, of a batch the first 1,000 files and then their number; what fails is not told.", Need: needEvents, Own: true, Run: eventsFiles},
		{Name: "EventsTellJobs", Rule: "A job begins, stalls and ends with its id, owner and key.", Need: all(needEvents, needJobs), Own: true, Run: eventsJobs},
		{Name: "EventsTellTerminals", Rule: "A terminal begins and ends with its id, argv and Exit, as a command does.", Need: all(needEvents, needTerminals, needShell), Own: true, Run: eventsTerminal},
		{Name: "EventsTellConnections", Rule: "What is dialled, and what is offered inside until it is closed, is told by the address that was given; what fails is not.", Need: all(needEvents, needPorts), Own: true, Run: eventsPorts},
		{Name: "EventsTellWatches", Rule: "A watch is told by the name that was given when it begins.", Need: all(needEvents, needWatch), Own: true, Run: eventsWatch},
		{Name: "EventsTellWhyATreeIsEnded", Rule: "A tree that is ended because somebody asked, or by its timeout, is told before its end, with the reason; one that ends by itself is not.", Need: all(needEvents, needShell), Own: true, Run: eventsKilled},
		{Name: "EventsTellClients", Rule: "A client that comes or leaves is told, each by a name of its own.", Need: all(needEvents, needKeyed), Run: eventsClients},
		{Name: "EventsTellOOM", Rule: "That memory ran out is told beside the end of what was killed.", Need: all(needEvents, needShell), Run: eventsOOM},
		{Name: "EventsHoldNoSecret", Rule: "No event holds an environment, input, output or content.", Need: all(needEvents, needShell), Own: true, Run: eventsSecret},
		{Name: "EventsWaitForNobody", Rule: "A listener that is slow holds up nothing; what it has missed is told as one event with their number, and nothing else is lost.", Need: needEvents, Own: true, Run: eventsSlow},
		{Name: "EventsEndWithThePlace", Rule: "That the place ends is its last event; whoever follows is told it, and its call returns nil.", Need: all(needEvents, needKeyed), Run: eventsClosing},
		{Name: "EventsBeginAgain", Rule: "A guest that was started again counts from 1, and begins with its start.", Need: all(needEvents, needKeyed), Run: eventsAgain},
	}
}

func needNoEvents(c spec.Caps) string {
	if c.Events {
		return "a place without events"
	}
	return ""
}

func eventsNone(ctx context.Context, t T, e *Env) {
	_, err := collect(ctx, e.Sandbox, spec.EventQuery{})
	wantError(t, "the events", err, spec.ErrUnsupported)
}

// collect returns the events that q selects.
func collect(ctx context.Context, sb *berth.Sandbox, q spec.EventQuery) ([]berth.Event, error) {
	var out []berth.Event
	for ev, err := range sb.Events(ctx, q) {
		if err != nil {
			return out, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// events returns what has happened to a place after an event.
func (e *Env) events(ctx context.Context, t T, sb *berth.Sandbox, after int64) []berth.Event {
	t.Helper()
	out, err := collect(ctx, sb, spec.EventQuery{After: after})
	if err != nil {
		t.Fatalf("events: %v", err)
	}
	for i, ev := range out {
		if ev.Seq != after+int64(i)+1 || ev.Time.IsZero() || i > 0 && ev.Time.Before(out[i-1].Time) {
			t.Errorf("event %d after %d is %+v", i+1, after, ev)
		}
	}
	return out
}

// lastEvent is the number of the latest event.
func (e *Env) lastEvent(ctx context.Context, t T, sb *berth.Sandbox) int64 {
	t.Helper()
	all := e.events(ctx, t, sb, 0)
	if len(all) == 0 {
		t.Fatalf("a place without any event")
	}
	return all[len(all)-1].Seq
}

// follow tells of events as they come, until stop is called or they end. The channel is
// closed then, and err gives the reason.
func (e *Env) follow(ctx context.Context, sb *berth.Sandbox, after int64) (told <-chan berth.Event, stop func(), err func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ch, done := make(chan berth.Event), make(chan error, 1)
	go func() {
		defer close(ch)
		for ev, err := range sb.Events(ctx, spec.EventQuery{After: after, Follow: true}) {
			if err != nil {
				done <- err
				return
			}
			select {
			case ch <- ev:
			case <-ctx.Done():
			}
		}
		done <- nil
	}()
	e.Cleanup(func(context.Context) error { cancel(); return nil })
	return ch, cancel, func() error { return <-done }
}

// only returns the events of some kinds.
func only(all []berth.Event, kinds ...spec.EventKind) []berth.Event {
	return slices.DeleteFunc(slices.Clone(all), func(ev berth.Event) bool { return !slices.Contains(kinds, ev.Kind) })
}

func eventsCommand(ctx context.Context, t T, e *Env) {
	argv := []string{"/bin/sh", "-c", "echo out; exit 3", "\xff\n", strings.Repeat("long", 2000)}
	c := e.Cmd(ctx, argv...)
	c.Key = "key-" + randomHex()
	var failed *berth.ExitError
	if err := c.Run(); !errors.As(err, &failed) || failed.Code != 3 {
		t.Fatalf("run: %v", err)
	}
	all := e.events(ctx, t, e.Sandbox, 0)
	if len(all) != 4 || all[0].Kind != spec.EventStarted || all[1].Kind != spec.EventClient || all[2].Kind != spec.EventCommandBegun || all[3].Kind != spec.EventCommandEnded {
		t.Fatalf("%+v; want a start, a client, a command and its end", all)
	}
	client, begun, ended := all[1], all[2], all[3]
	if client.Client == "" || client.Ended || begun.Client != client.Client || ended.Client != client.Client {
		t.Errorf("the clients are %q, %q and %q", client.Client, begun.Client, ended.Client)
	}
	if begun.Key != c.Key || ended.Key != c.Key || begun.ID == "" || begun.ID != ended.ID || begun.PID <= 0 || begun.PID != ended.PID || begun.Exit != nil || ended.Exit == nil {
		t.Errorf("begun %+v, ended %+v", begun, ended)
	}
	if n := len(strings.Join(begun.Args, "")); len(begun.Args) != len(argv) || !slices.Equal(begun.Args[:4], argv[:4]) || n != 4<<10 || !strings.HasPrefix(argv[4], begun.Args[4]) {
		t.Errorf("args of %d bytes in all: %.100q; want the first 4 KiB of %.100q", n, begun.Args, argv)
	}
	if ended.Exit != nil && !reflect.DeepEqual(*ended.Exit, failed.Exit) {
		t.Errorf("the event says %+v, Wait %+v", *ended.Exit, failed.Exit)
	}
}

func eventsOrder(ctx context.Context, t T, e *Env) {
	const commands = 12
	first := e.lastEvent(ctx, t, e.Sandbox)
	var told [2]<-chan berth.Event
	var stop [2]func()
	for i := range told {
		told[i], stop[i], _ = e.follow(ctx, e.Sandbox, first)
	}
	var group sync.WaitGroup
	for range commands {
		group.Go(func() {
			if _, err := e.Sandbox.Exec(ctx, berth.Shell("exit 0"), berth.ExecOptions{}); err != nil {
				t.Errorf("exec: %v", err)
			}
		})
	}
	group.Wait()
	all := e.events(ctx, t, e.Sandbox, first)
	if len(all) != 2*commands {
		t.Fatalf("%d events of %d commands: %+v", len(all), commands, all)
	}
	begun := map[string]bool{}
	for _, ev := range all {
		if (ev.Kind == spec.EventCommandBegun) == begun[ev.ID] {
			t.Errorf("%s comes in the wrong order: %+v", ev.Kind, ev)
		}
		begun[ev.ID] = true
	}
	for i := range told {
		for _, want := range all {
			if got := next(ctx, t, told[i]); !reflect.DeepEqual(got, want) {
				t.Errorf("listener %d is told %+v; want %+v", i, got, want)
			}
		}
		stop[i]()
	}
}

// next returns the next event that a follower is told.
func next(ctx context.Context, t T, told <-chan berth.Event) berth.Event {
	t.Helper()
	select {
	case ev, ok := <-told:
		if !ok {
			t.Fatalf("there are no more events")
		}
		return ev
	case <-ctx.Done():
		t.Fatalf("no event comes")
	}
	panic("unreachable")
}

func eventsAfter(ctx context.Context, t T, e *Env) {
	e.Exec(ctx, t, berth.Shell("exit 0"), berth.ExecOptions{})
	all := e.events(ctx, t, e.Sandbox, 0)
	last := all[len(all)-1].Seq
	for after := int64(0); after <= last; after++ {
		if got := e.events(ctx, t, e.Sandbox, after); !reflect.DeepEqual(got, slices.Clone(all[after:])) && len(got)+int(after) != len(all) {
			t.Errorf("after %d: %+v", after, got)
		}
	}
	got, err := collect(ctx, e.Sandbox, spec.EventQuery{After: last + 1000})
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("after a number of another life: %+v, %v", got, err)
	}
	_, err = collect(ctx, e.Sandbox, spec.EventQuery{After: -1})
	wantError(t, "after a negative number", err, spec.ErrInvalid)
	told, stop, reason := e.follow(ctx, e.Sandbox, last-1)
	if ev := next(ctx, t, told); ev.Seq != last {
		t.Errorf("a follower after %d is told of %d", last-1, ev.Seq)
	}
	stop()
	for range told {
	}
	if err := reason(); !errors.Is(err, context.Canceled) {
		t.Errorf("the following of a caller who has gone ends with %v", err)
	}
}

func eventsFiles(ctx context.Context, t T, e *Env) {
	f := e.Sandbox.Files()
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	first := e.lastEvent(ctx, t, e.Sandbox)
	do("write", f.WriteFile(ctx, "a\xff\n", []byte("x"), files.WriteOptions{}))
	do("mkdir", f.Mkdir(ctx, "d", files.MkdirOptions{}))
	do("chmod", f.Chmod(ctx, "d", 0o700))
	do("copy", f.Copy(ctx, "a\xff\n", "d/b", files.CopyOptions{}))
	do("rename", f.Rename(ctx, "d/b", "c", files.RenameOptions{}))
	do("remove", f.Remove(ctx, "c", files.RemoveOptions{}))
	if err := f.Remove(ctx, "missing", files.RemoveOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove what is not there: %v", err)
	}
	if _, err := f.ReadFile(ctx, "a\xff\n"); err != nil {
		t.Errorf("read: %v", err)
	}
	want := []berth.Event{
		{Kind: spec.EventFileWritten, Path: "a\xff\n"},
		{Kind: spec.EventFileWritten, Path: "d"},
		{Kind: spec.EventFileWritten, Path: "d"},
		{Kind: spec.EventFileWritten, Path: "d/b"},
		{Kind: spec.EventFileMoved, Path: "c", OldPath: "d/b"},
		{Kind: spec.EventFileRemoved, Path: "c"},
	}
	all := e.events(ctx, t, e.Sandbox, first)
	wantFileEvents(t, all, want)

	const count, told = 1250, 1000
	landed, err := f.WriteBatch(ctx, smallFiles("batch", count), files.BatchOptions{})
	if err != nil || landed != count {
		t.Fatalf("batch: %d, %v", landed, err)
	}
	want = nil
	for i := range told {
		want = append(want, berth.Event{Kind: spec.EventFileWritten, Path: fmt.Sprintf("batch/%d", i)})
	}
	want = append(want, berth.Event{Kind: spec.EventFileWritten, Count: count - told})
	wantFileEvents(t, e.events(ctx, t, e.Sandbox, first+int64(len(all))), want)
}

// smallFiles are files dir/0, dir/1, ... without content.
func smallFiles(dir string, count int) func(yield func(files.BatchFile, error) bool) {
	return func(yield func(files.BatchFile, error) bool) {
		for i := range count {
			if !yield(files.BatchFile{Name: fmt.Sprintf("%s/%d", dir, i), Mode: 0o644, Src: strings.NewReader("")}, nil) {
				return
			}
		}
	}
}

func wantFileEvents(t T, got, want []berth.Event) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events; want %d: %.400q", len(got), len(want), fmt.Sprint(got))
	}
	for i, ev := range got {
		if ev.Client == "" {
			t.Errorf("event %d names no client", ev.Seq)
		}
		ev.Seq, ev.Time, ev.Client = 0, time.Time{}, ""
		if !reflect.DeepEqual(ev, want[i]) {
			t.Errorf("event %+v; want %+v", ev, want[i])
		}
	}
}

func eventsJobs(ctx context.Context, t T, e *Env) {
	first := e.lastEvent(ctx, t, e.Sandbox)
	jobs := e.jobs()
	j := e.start(ctx, t, jobs, "exec sleep 300", berth.JobOptions{Key: "job", StallAfter: 100 * time.Millisecond})
	var all []berth.Event
	if !e.Eventually(ctx, func() bool {
		all = e.events(ctx, t, e.Sandbox, first)
		return len(only(all, spec.EventJobStalled)) > 0
	}) {
		t.Fatalf("the job does not stall: %+v", all)
	}
	info, err := j.Kill(ctx, -1)
	if err != nil {
		t.Fatalf("kill: %v", err)
	}
	all = e.events(ctx, t, e.Sandbox, first)
	if len(all) != 4 {
		t.Fatalf("%+v; want a beginning, a stall, a kill and an end", all)
	}
	for i, kind := range []spec.EventKind{spec.EventJobBegun, spec.EventJobStalled, spec.EventKilled, spec.EventJobEnded} {
		if ev := all[i]; ev.Kind != kind || ev.ID != j.ID() || ev.Owner != jobs.Owner() || ev.Key != "job" {
			t.Errorf("event %d is %+v; want %s of %s", i, ev, kind, j.ID())
		}
	}
	if begun := all[0]; begun.PID != info.PID || !slices.Equal(begun.Args, info.Args) || begun.Client == "" {
		t.Errorf("it begins as %+v; its record is %+v", begun, info)
	}
	if ended := all[3]; ended.Exit == nil || !reflect.DeepEqual(*ended.Exit, info.Exit) {
		t.Errorf("it ends with %+v; its record says %+v", ended.Exit, info.Exit)
	}
}

func eventsKilled(ctx context.Context, t T, e *Env) {
	first := e.lastEvent(ctx, t, e.Sandbox)
	sleeper := berth.Shell("sleep 300; :")
	e.Exec(ctx, t, berth.Shell("kill -9 $$"), berth.ExecOptions{})
	e.Exec(ctx, t, sleeper, berth.ExecOptions{Timeout: 50 * time.Millisecond, Grace: -1})
	e.Exec(ctx, t, sleeper, berth.ExecOptions{NoOutputTimeout: 50 * time.Millisecond, Grace: -1})
	reasons := []string{"timeout", "no_output", "kill", "cancel"}
	c := e.startKeyed(ctx, t, e.Sandbox, "echo ready; sleep 300; :")
	if err := c.Kill(ctx); err != nil {
		t.Fatalf("kill: %v", err)
	}
	waitKilled(t, c)
	life, cancel := context.WithCancel(ctx)
	canceled := e.Cmd(life, sleeper...)
	canceled.WaitDelay = -1
	if err := canceled.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	cancel()
	_ = canceled.Wait()
	c = e.startKeyed(ctx, t, e.Sandbox, "echo ready; sleep 300; :")
	if _, ok := e.terminate(ctx, t, e.Sandbox, c.Key, -1); ok {
		reasons = append(reasons, "terminate")
		waitKilled(t, c)
	} else if err := c.Kill(ctx); err != nil {
		t.Fatalf("kill: %v", err)
	}
	var all []berth.Event
	if !e.Eventually(ctx, func() bool {
		all = e.events(ctx, t, e.Sandbox, first)
		return len(only(all, spec.EventCommandEnded)) == 6
	}) {
		t.Fatalf("six commands have not ended: %+v", all)
	}
	var got []string
	running := map[string]bool{}
	for _, ev := range all {
		running[ev.ID] = ev.Kind != spec.EventCommandEnded
		if ev.Kind == spec.EventKilled {
			got = append(got, ev.Reason)
			if !running[ev.ID] || (ev.Client == "") != (ev.Reason == "timeout" || ev.Reason == "no_output") {
				t.Errorf("%+v", ev)
			}
		}
	}
	slices.Sort(got) // a cancel need not wait for its end
	slices.Sort(reasons)
	if !slices.Equal(got, reasons) {
		t.Errorf("the reasons are %q; want %q", got, reasons)
	}
}

func eventsClients(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	first := e.lastEvent(ctx, t, sb)
	other := e.Attach(ctx, t, s.Key)
	if err := other.Detach(ctx); err != nil {
		t.Fatalf("detach: %v", err)
	}
	var clients []berth.Event
	if !e.Eventually(ctx, func() bool {
		clients = only(e.events(ctx, t, sb, first), spec.EventClient)
		return len(clients) >= 2
	}) {
		t.Fatalf("%+v; want a client that comes and leaves", clients)
	}
	came, left := clients[0], clients[1]
	own := only(e.events(ctx, t, sb, 0), spec.EventClient)[0].Client
	if came.Ended || !left.Ended || came.Client != left.Client || came.Client == own || came.Client == "" {
		t.Errorf("it comes as %+v and leaves as %+v; we are %q", came, left, own)
	}
}

func eventsOOM(ctx context.Context, t T, e *Env) {
	sb := e.limited(ctx, t, spec.Limits{MemoryBytes: memoryLimit})
	first := e.lastEvent(ctx, t, sb)
	e.ExecIn(ctx, t, sb, berth.Shell(hog), berth.ExecOptions{Timeout: long})
	all := only(e.events(ctx, t, sb, first), spec.EventCommandBegun, spec.EventOOM, spec.EventCommandEnded)
	if len(all) != 3 || all[1].Kind != spec.EventOOM || all[1].ID != all[2].ID || all[2].Exit == nil || all[2].Exit.OOM == nil {
		t.Errorf("%+v; want a command, OOM, and its end", all)
	}
}

func eventsSecret(ctx context.Context, t T, e *Env) {
	secret := "hidden" + randomHex()
	r := e.Exec(ctx, t, berth.Shell(`cat; echo "$SECRET"; echo "$SECRET" >&2`), berth.ExecOptions{
		Env: map[string]string{"SECRET": secret}, Stdin: strings.NewReader(secret),
	})
	if n := strings.Count(string(r.Stdout)+string(r.Stderr), secret); n != 3 {
		t.Errorf("the command has the secret %d times", n)
	}
	e.write(ctx, t, "name", []byte(secret), files.WriteOptions{})
	told, err := json.Marshal(e.events(ctx, t, e.Sandbox, 0))
	if err != nil || strings.Contains(string(told), secret) {
		t.Errorf("%v: the secret is in %s", err, told)
	}
}

func eventsSlow(ctx context.Context, t T, e *Env) {
	const batches, size = 10, 1000
	long := strings.Repeat("/"+strings.Repeat("long", 50), 3)[1:] // more than what is on its way to a listener
	ready, go_ := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var last, missed, told int64
	done := make(chan error, 1)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ev, err := range e.Sandbox.Events(follow, spec.EventQuery{Follow: true}) {
			if err != nil {
				done <- err
				return
			}
			once.Do(func() { close(ready); <-go_ })
			if ev.Kind == spec.EventMissed {
				missed += ev.Count
				last += ev.Count - 1
			} else {
				told++
			}
			if last++; ev.Seq != last {
				done <- fmt.Errorf("event %d comes as number %d", ev.Seq, last)
				return
			}
			if ev.Path == "end" {
				done <- nil
				return
			}
		}
	}()
	<-ready
	for range batches {
		if landed, err := e.Sandbox.Files().WriteBatch(ctx, smallFiles(long, size), files.BatchOptions{}); err != nil || landed != size {
			t.Fatalf("batch: %d, %v", landed, err)
		}
	}
	e.write(ctx, t, "end", nil, files.WriteOptions{})
	close(go_)
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("the listener: %v", err)
		}
	case <-ctx.Done():
		t.Fatalf("the listener does not come to the end")
	}
	if missed < 1 || missed+told != last || last < batches*size {
		t.Errorf("of %d events %d are told, %d missed", last, told, missed)
	}
}

func eventsClosing(ctx context.Context, t T, e *Env) {
	s := e.Keyed()
	s.TTL = 2 * time.Second
	sb := e.Provision(ctx, t, s)
	told, _, reason := e.follow(ctx, sb, 0)
	var last berth.Event
	for ev := range told {
		last = ev
	}
	if err := reason(); err != nil || last.Kind != spec.EventClosing {
		t.Errorf("the last event is %+v, %v; want %s and no error", last, err, spec.EventClosing)
	}
}

func eventsAgain(ctx context.Context, t T, e *Env) {
	stopper, ok := e.Driver.(driver.Stopper)
	if !ok {
		t.Logf("places of this backend cannot be stopped")
		return
	}
	s := e.Keyed()
	sb := e.Provision(ctx, t, s)
	for range 3 {
		if err := sb.Files().Mkdir(ctx, "d"+randomHex(), files.MkdirOptions{}); err != nil {
			t.Fatalf("mkdir: %v", err)
		}
	}
	last := e.lastEvent(ctx, t, sb)
	if err := stopper.Stop(ctx, s.Key, driver.ReapOptions{}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	again := e.ProvisionWith(ctx, t, e.Open(t), s, berth.ProvisionOptions{})
	all, err := collect(ctx, again, spec.EventQuery{After: last + 100})
	if err != nil || len(all) < 2 || all[0].Seq != 1 || all[0].Kind != spec.EventStarted || all[1].Kind != spec.EventClient {
		t.Errorf("after the second start: %+v, %v", all, err)
	}
}
