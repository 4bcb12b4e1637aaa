package drivertest

import (
	"context"
	"reflect"
	"slices"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// eventually waits until a number of events of some kinds have been told, and returns them.
func (e *Env) eventually(ctx context.Context, t T, count int, kinds ...spec.EventKind) []berth.Event {
	t.Helper()
	var told []berth.Event
	if !e.Eventually(ctx, func() bool {
		told = only(e.events(ctx, t, e.Sandbox, 0), kinds...)
		return len(told) >= count
	}) {
		t.Fatalf("%d events of %v were told, want %d: %+v", len(told), kinds, count, told)
	}
	return told
}

func eventsTerminal(ctx context.Context, t T, e *Env) {
	argv := []string{"/bin/sh", "-c", "exit 3"}
	term, err := e.Sandbox.OpenTerminal(ctx, berth.TerminalOptions{Args: argv})
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	if _, err := term.Wait(ctx); err != nil {
		t.Fatalf("wait: %v", err)
	}
	told := e.eventually(ctx, t, 2, spec.EventTerminalBegun, spec.EventTerminalEnded, spec.EventCommandBegun, spec.EventCommandEnded)
	begun, ended := told[0], told[1]
	if len(told) != 2 || begun.Kind != spec.EventTerminalBegun || ended.Kind != spec.EventTerminalEnded {
		t.Fatalf("%+v; want a terminal and its end", told)
	}
	if begun.ID != term.ID() || ended.ID != term.ID() || begun.PID <= 0 || begun.PID != ended.PID || !slices.Equal(begun.Args, argv) {
		t.Errorf("terminal %s began with %+v and ended with %+v", term.ID(), begun, ended)
	}
	if ended.Exit == nil || ended.Exit.Code != 3 {
		t.Errorf("it ended with %+v; want status 3", ended.Exit)
	}
}

func eventsPorts(ctx context.Context, t T, e *Env) {
	l := e.listen(ctx, t, "tcp", "127.0.0.1:0")
	address := l.Addr().String()
	dialled, accepted := e.pair(ctx, t, l)
	dialled.Close()
	accepted.Close()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := e.Sandbox.Dial(ctx, "tcp", address); err == nil {
		t.Errorf("what is closed was dialled")
	}
	told := e.eventually(ctx, t, 3, spec.EventListened, spec.EventDialled)
	var got []berth.Event
	for _, ev := range told {
		got = append(got, berth.Event{Kind: ev.Kind, Address: ev.Address, Ended: ev.Ended})
	}
	want := []berth.Event{
		{Kind: spec.EventListened, Address: "tcp 127.0.0.1:0"},
		{Kind: spec.EventDialled, Address: "tcp " + address},
		{Kind: spec.EventListened, Address: "tcp 127.0.0.1:0", Ended: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("told %+v; want %+v", got, want)
	}
}

func eventsWatch(ctx context.Context, t T, e *Env) {
	name := "watched-" + randomHex()
	if err := e.Sandbox.Files().Mkdir(ctx, name, files.MkdirOptions{}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	w, err := e.watchDir(ctx, name)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.cancel()
	told := e.eventually(ctx, t, 1, spec.EventWatchBegun)
	if len(told) != 1 || told[0].Path != name {
		t.Errorf("%+v; want one watch of %q", told, name)
	}
}
