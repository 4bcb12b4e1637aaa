package guest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// event is one that a guest may tell.
func event(seq int64) wire.PlaceEvent {
	return wire.PlaceEvent{Seq: seq, Kind: string(spec.EventFileWritten), Path: wire.Bytes("f")}
}

// tellEvents answers a request for events with some batches.
func tellEvents(st *wire.Stream, info wire.EventsInfo, batches ...wire.EventBatch) {
	_ = wire.WriteMessage(st, wire.Reply{Events: &info})
	for _, b := range batches {
		_ = wire.WriteMessage(st, b)
	}
}

func batch(events ...wire.PlaceEvent) wire.EventBatch { return wire.EventBatch{Events: events} }

// TestEventsOfALiar defends: events that were not asked for, that do not follow each other
// or that say what cannot be are a breach, and none of them is told; without following,
// they have an end.
func TestEventsOfALiar(t *testing.T) {
	life := wire.EventsInfo{Life: "a", Last: 10}
	spoilt := func(spoil func(e *wire.PlaceEvent)) func(st *wire.Stream) {
		return func(st *wire.Stream) {
			e := event(1)
			spoil(&e)
			tellEvents(st, life, batch(e))
		}
	}
	missed := func(seq, count int64) wire.PlaceEvent {
		return wire.PlaceEvent{Seq: seq, Kind: string(spec.EventMissed), Count: count}
	}
	for name, tell := range map[string]func(st *wire.Stream){
		"no record":              func(st *wire.Stream) { reply(st, wire.Reply{}) },
		"no life":                func(st *wire.Stream) { tellEvents(st, wire.EventsInfo{}) },
		"a long life":            func(st *wire.Stream) { tellEvents(st, wire.EventsInfo{Life: strings.Repeat("x", 100)}) },
		"another beginning":      func(st *wire.Stream) { tellEvents(st, wire.EventsInfo{Life: "a", After: 5, Last: 10}) },
		"an end before it":       func(st *wire.Stream) { tellEvents(st, wire.EventsInfo{Life: "a", Last: -1}) },
		"a gap":                  func(st *wire.Stream) { tellEvents(st, life, batch(event(2))) },
		"beyond the end":         func(st *wire.Stream) { tellEvents(st, wire.EventsInfo{Life: "a"}, batch(event(1))) },
		"a false gap":            func(st *wire.Stream) { tellEvents(st, life, batch(missed(5, 4))) },
		"a gap below zero":       func(st *wire.Stream) { tellEvents(st, life, batch(missed(5, -1))) },
		"a gap of nothing":       func(st *wire.Stream) { tellEvents(st, life, batch(missed(1, 0))) },
		"an overflow":            func(st *wire.Stream) { tellEvents(st, life, batch(missed(1, 1<<63-1))) },
		"an empty batch":         func(st *wire.Stream) { tellEvents(st, life, batch()) },
		"a huge batch":           func(st *wire.Stream) { tellEvents(st, life, batch(make([]wire.PlaceEvent, 500)...)) },
		"no number":              spoilt(func(e *wire.PlaceEvent) { e.Seq = 0 }),
		"a time before any":      spoilt(func(e *wire.PlaceEvent) { e.TimeUnixNS = -1 }),
		"no kind":                spoilt(func(e *wire.PlaceEvent) { e.Kind = "" }),
		"a kind that is no word": spoilt(func(e *wire.PlaceEvent) { e.Kind = "x\x1b[2J" }),
		"huge args":              spoilt(func(e *wire.PlaceEvent) { e.Args = []wire.Bytes{make([]byte, 5000)} }),
		"many args":              spoilt(func(e *wire.PlaceEvent) { e.Args = make([]wire.Bytes, 200) }),
		"a huge path":            spoilt(func(e *wire.PlaceEvent) { e.Path = make([]byte, 5000) }),
		"a huge reason":          spoilt(func(e *wire.PlaceEvent) { e.Reason = strings.Repeat("x", 1000) }),
		"a huge client":          spoilt(func(e *wire.PlaceEvent) { e.Client = strings.Repeat("x", 1000) }),
		"a negative pid":         spoilt(func(e *wire.PlaceEvent) { e.PID = -1 }),
		"an end without an exit": spoilt(func(e *wire.PlaceEvent) { e.Kind = string(spec.EventCommandEnded) }),
		"an impossible exit":     spoilt(func(e *wire.PlaceEvent) { e.Exit = &wire.Exit{Code: 300} }),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) { tell(st) })
			quickly(t, 20*time.Second, "the events", func() {
				err := f.open(guest.OpenOptions{}).Events(context.Background(), spec.EventQuery{}, func(e spec.Event) error {
					t.Errorf("it is told of %+v", e)
					return nil
				})
				wantCode(t, err, spec.CodeInternal)
			})
		})
	}
	t.Run("without an end", func(t *testing.T) {
		f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
			tellEvents(st, wire.EventsInfo{Life: "a", Last: 1 << 50})
			for seq := int64(1); wire.WriteMessage(st, batch(event(seq))) == nil; seq++ {
			}
		})
		told := 0
		quickly(t, 30*time.Second, "the events", func() {
			err := f.open(guest.OpenOptions{}).Events(context.Background(), spec.EventQuery{}, func(spec.Event) error { told++; return nil })
			wantCode(t, err, spec.CodeInternal)
		})
		if told > 10_000 {
			t.Errorf("it is told of %d", told)
		}
	})
}

// TestEventsOverARedial defends: on the next connection the events go on after the last
// that was told; those of another life begin again, however many there are.
func TestEventsOverARedial(t *testing.T) {
	asked, heard := make(chan wire.EventsRequest, 10), make(chan int64, 10)
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		asked <- *req.Events
		switch c.n {
		case 1:
			tellEvents(st, wire.EventsInfo{Life: "a", Last: 2}, batch(event(1), event(2)))
			for <-heard != 2 {
			}
			c.cut()
		case 2:
			tellEvents(st, wire.EventsInfo{Life: "a", After: 2, Last: 9}, batch(event(3)))
			<-heard
			c.cut()
		default:
			tellEvents(st, wire.EventsInfo{Life: "b", Last: 9}, wire.EventBatch{Events: []wire.PlaceEvent{event(1)}, Done: true})
		}
	})
	var told []int64
	s := f.open(guest.OpenOptions{Redial: f.dial})
	err := s.Events(context.Background(), spec.EventQuery{Follow: true}, func(e spec.Event) error {
		told = append(told, e.Seq)
		heard <- e.Seq
		return nil
	})
	if want := []int64{1, 2, 3, 1}; err != nil || !slices.Equal(told, want) {
		t.Errorf("it is told of %v, %v; want %v", told, err, want)
	}
	for _, want := range []wire.EventsRequest{{Follow: true}, {After: 2, Life: "a", Follow: true}, {After: 3, Life: "a", Follow: true}} {
		if got := <-asked; got != want {
			t.Errorf("it asks for %+v; want %+v", got, want)
		}
	}
}

// TestEventsEnd defends: a guest that begins again in the same life is a liar,
// and an error of tell, or the end of its context, ends the telling.
func TestEventsEnd(t *testing.T) {
	heard := make(chan struct{}, 10)
	f := newFake(t, func(c *fakeConn, st *wire.Stream, _ *wire.Request) {
		tellEvents(st, wire.EventsInfo{Life: "a", Last: 1}, batch(event(1)))
		if c.n == 1 {
			<-heard
			c.cut()
		}
	})
	s := f.open(guest.OpenOptions{Redial: f.dial})
	q := spec.EventQuery{Follow: true}
	wantCode(t, s.Events(context.Background(), q, func(spec.Event) error { heard <- struct{}{}; return nil }), spec.CodeInternal)
	if err := s.Events(context.Background(), q, func(spec.Event) error { return errPlain }); !errors.Is(err, errPlain) {
		t.Errorf("an error of tell: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.Events(ctx, q, func(spec.Event) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has gone: %v", err)
	}
}
