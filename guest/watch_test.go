package guest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// changes are the records of changes.
func changes(all ...files.WatchEvent) []byte {
	var buf []byte
	prev := ""
	for _, e := range all {
		buf, prev = wire.AppendChange(buf, prev, &e)
	}
	return buf
}

// A guest is believed about changes as far as they can be: those of what was asked for,
// and no path that leads out of it.
func TestHostileWatch(t *testing.T) {
	a := files.WatchEvent{Kind: files.WatchCreated, Path: "a"}
	for _, tt := range []struct {
		name string
		tell func(st *wire.Stream)
		want int
		code spec.Code
	}{
		{"honest, until it is gone", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(a, a), 0)
			_ = wire.WriteMessage(st, &wire.Reply{Err: wire.FromError(spec.New(spec.CodeFileNotFound, "gone"))})
		}, 2, spec.CodeFileNotFound},
		{"refused", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{Err: wire.FromError(spec.New(spec.CodeUnavailable, "too many"))})
		}, 0, spec.CodeUnavailable},
		{"leads out", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(a, files.WatchEvent{Kind: files.WatchCreated, Path: "../b"}), 0)
		}, 1, spec.CodeInternal},
		{"comes from outside", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(files.WatchEvent{Kind: files.WatchRenamed, Path: "a", OldPath: "/b"}), 0)
		}, 0, spec.CodeInternal},
		{"lies below", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(a, files.WatchEvent{Kind: files.WatchCreated, Path: "a/b"}), 0)
		}, 1, spec.CodeInternal},
		{"changes before it is ready", func(st *wire.Stream) {
			_, _ = wire.WriteData(st, changes(a), 0)
		}, 0, spec.CodeInternal},
		{"an end without a reason", func(st *wire.Stream) {
			_ = wire.WriteMessage(st, &wire.Reply{})
			_ = wire.WriteEnd(st)
		}, 0, spec.CodeInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			f := newFake(t, func(_ *fakeConn, st *wire.Stream, _ *wire.Request) {
				tt.tell(st)
				drainStream(st)
			})
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := files.Watch(ctx, f.open(guest.OpenOptions{}).Files(), "d", files.WatchOptions{}, nil, func(files.WatchEvent) error {
				n++
				return nil
			})
			wantCode(t, err, tt.code)
			if n != tt.want {
				t.Errorf("%d changes, want %d", n, tt.want)
			}
		})
	}
}

// A watch goes on over a lost connection, is ready once, and says that changes may be
// missing.
func TestWatchOverALostConnection(t *testing.T) {
	noLeaks(t)
	a, b := files.WatchEvent{Kind: files.WatchCreated, Path: "a"}, files.WatchEvent{Kind: files.WatchRemoved, Path: "b", Dir: true}
	told := make(chan struct{}, 1)
	f := newFake(t, func(c *fakeConn, st *wire.Stream, req *wire.Request) {
		if diff := cmp.Diff(files.WatchOptions{Exclude: []string{"x"}}, req.Watch.Options()); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
		switch c.n {
		case 1: // before it is ready
			c.cut()
		case 2:
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(a), 0)
			<-told
			c.cut()
		default:
			_ = wire.WriteMessage(st, &wire.Reply{})
			_, _ = wire.WriteData(st, changes(b), 0)
			drainStream(st)
		}
	})
	fsys := f.open(guest.OpenOptions{Redial: f.dial}).Files()
	ready, enough := 0, errors.New("enough")
	var got []files.WatchEvent
	err := files.Watch(t.Context(), fsys, "d", files.WatchOptions{Exclude: []string{"x"}}, func() { ready++ }, func(e files.WatchEvent) error {
		if got = append(got, e); e == b {
			return enough
		}
		if e == a {
			told <- struct{}{}
		}
		return nil
	})
	if !errors.Is(err, enough) || ready != 1 {
		t.Errorf("ready %d times, %v", ready, err)
	}
	if diff := cmp.Diff([]files.WatchEvent{a, {Kind: files.WatchOverflow, Path: "."}, b}, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
