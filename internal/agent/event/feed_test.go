//go:build linux

package event

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// all reads what a listener after seq gets, to what there is now.
func all(f *Feed, seq int64) (out []wire.PlaceEvent) {
	info := f.enter(&wire.EventsRequest{After: seq})
	defer f.leave()
	for at := info.After; ; at = out[len(out)-1].Seq {
		batch, _, done := f.after(at, info.Last)
		if out = append(out, batch...); done {
			return out
		}
	}
}

// What is over the bounds of number and bytes is missed as one event, and nothing else.
func TestKept(t *testing.T) {
	for name, args := range map[string][]wire.Bytes{"number": nil, "bytes": {make(wire.Bytes, 3000)}} {
		f := New()
		const events = 3 * Kept
		for range events {
			f.Record(wire.PlaceEvent{Kind: "x", Args: args})
		}
		got := all(f, 10)
		first, last := got[0], got[len(got)-1]
		if first.Kind != string(spec.EventMissed) || first.Seq-first.Count != 10 || last.Seq != events || int64(len(got)-1) != events-first.Seq {
			t.Errorf("%s: %d events from %+v to %+v", name, len(got), first, last)
		}
		if kept := len(got) - 1; f.bytes > keptBytes || args == nil && kept != Kept || args != nil && kept >= Kept {
			t.Errorf("%s: %d events of %d bytes are kept", name, kept, f.bytes)
		}
	}
}

// The last event is the end; nothing is taken in after it, and End does not wait for a
// listener that does not listen.
func TestEnd(t *testing.T) {
	f := New()
	f.Record(wire.PlaceEvent{Kind: "x"})
	f.enter(&wire.EventsRequest{})
	began := time.Now()
	f.End(50 * time.Millisecond)
	if took := time.Since(began); took < 50*time.Millisecond || took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	f.Record(wire.PlaceEvent{Kind: "late"})
	batch, news, done := f.after(0, forever)
	if len(batch) != 2 || batch[1].Kind != string(spec.EventClosing) || news != nil || !done {
		t.Errorf("%+v, done %v", batch, done)
	}
	f.leave()
}

// A number of another life, or of none, is no number here.
func TestOtherLife(t *testing.T) {
	f := New()
	f.Record(wire.PlaceEvent{Kind: "x"})
	for _, r := range []wire.EventsRequest{{After: 1, Life: "other"}, {After: 2}, {After: 2, Life: f.life}} {
		if info := f.enter(&r); info.After != 0 || info.Life != f.life || info.Last != 1 {
			t.Errorf("%+v is answered by %+v", r, info)
		}
	}
}

// BenchmarkRecord is what an event costs a command.
func BenchmarkRecord(b *testing.B) {
	f := New()
	args := []wire.Bytes{wire.Bytes("/bin/true")}
	b.ReportAllocs()
	for b.Loop() {
		f.Record(wire.PlaceEvent{Kind: "command_begun", Client: "c", ID: "i", Args: args, PID: 1})
	}
}
