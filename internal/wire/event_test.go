package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// An event crosses the wire byte for byte.
func TestEventRoundTrip(t *testing.T) {
	in := wire.PlaceEvent{
		Seq: 7, TimeUnixNS: 5, Kind: "command_ended", Client: "c", ID: "i", Key: "k", Owner: "o", Args: []wire.Bytes{wire.Bytes("a\xff\x00")}, PID: 3,
		Exit: &wire.Exit{Code: 4}, Path: wire.Bytes("p\xff"), OldPath: wire.Bytes("q\n"), Address: "tcp 127.0.0.1:80", Ended: true, Count: 2, Reason: "r",
	}
	got := throughJSON(t, in)
	e, err := got.Spec()
	want := spec.Event{
		Seq: 7, Time: time.Unix(0, 5), Kind: spec.EventCommandEnded, Client: "c", ID: "i", Key: "k", Owner: "o", Args: []string{"a\xff\x00"}, PID: 3,
		Exit: &spec.Exit{Code: 4}, Path: "p\xff", OldPath: "q\n", Address: "tcp 127.0.0.1:80", Ended: true, Count: 2, Reason: "r",
	}
	if diff := cmp.Diff(want, e); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	in = wire.PlaceEvent{Seq: 1, Kind: "of_a_later_guest"}
	if e, err := in.Spec(); err != nil || e.Kind != "of_a_later_guest" {
		t.Errorf("a kind that is not known: %+v, %v", e, err)
	}
}

// EventArgs keeps the beginning, changes nothing and makes what Spec takes.
func TestEventArgs(t *testing.T) {
	long := make(wire.Bytes, 3<<10)
	for name, args := range map[string][]wire.Bytes{
		"none": nil, "few": {long, wire.Bytes("x")}, "long": {long, long, long}, "many": make([]wire.Bytes, 1000), "just": {long, make(wire.Bytes, 1<<10), long},
	} {
		e := wire.PlaceEvent{Seq: 1, Kind: "x", Args: wire.EventArgs(args)}
		got, err := e.Spec()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		total := 0
		for i, a := range got.Args {
			total += len(a)
			if last := i == len(got.Args)-1; string(args[i][:len(a)]) != a || !last && len(a) != len(args[i]) {
				t.Errorf("%s: argument %d has %d bytes", name, i, len(a))
			}
		}
		if (len(got.Args) < len(args) || total < 3<<10 && name == "long") && total != wire.MaxEventArgBytes && len(got.Args) != wire.MaxEventArgs {
			t.Errorf("%s: %d arguments of %d bytes are kept", name, len(got.Args), total)
		}
	}
	if len(long) != 3<<10 {
		t.Error("the arguments were changed")
	}
}
