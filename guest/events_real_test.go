//go:build linux

package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

var errHeard = errors.New("heard enough")

// TestEventsOfAConnectionThatIsCut defends: over a connection that is cut again and again
// every event is told once and in order, and the coming and going of its own client too.
func TestEventsOfAConnectionThatIsCut(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	steady := pl.open(nil)
	var cuts atomic.Int64
	cut := pl.open(func(c io.ReadWriteCloser) io.ReadWriteCloser {
		cuts.Add(1)
		return &cutter{ReadWriteCloser: c, left: 5000 + rand.Int64N(20_000)}
	})
	const changes = 1500
	done := make(chan error, 1)
	go func() {
		next, last := 0, int64(0)
		done <- cut.Events(context.Background(), spec.EventQuery{Follow: true}, func(e spec.Event) error {
			if last++; e.Seq != last {
				return fmt.Errorf("event %d comes as number %d", e.Seq, last)
			}
			if e.Kind != spec.EventFileWritten {
				return nil
			}
			if want := fmt.Sprintf("d%d", next); e.Path != want {
				return fmt.Errorf("a change of %s; want %s", e.Path, want)
			}
			if next++; next == changes {
				return errHeard
			}
			return nil
		})
	}()
	for i := range changes {
		if err := steady.Files().Mkdir(context.Background(), fmt.Sprintf("d%d", i), files.MkdirOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, errHeard) {
		t.Error(err)
	}
	if n := cuts.Load(); n < 3 {
		t.Errorf("%d connections: nothing was cut", n)
	}
}

// TestShutdownIsTheLastEvent defends: who follows is told that the place ends, after the
// ends of its commands, and that is no error.
func TestShutdownIsTheLastEvent(t *testing.T) {
	noLeaks(t)
	pl := newPlace(t)
	s, other := pl.open(nil), pl.open(nil)
	p, err := other.Start(context.Background(), argv("sleep", "600"), driver.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	var last []spec.Event
	done := make(chan error, 1)
	following := make(chan struct{})
	go func() {
		done <- s.Events(context.Background(), spec.EventQuery{Follow: true}, func(e spec.Event) error {
			if last = append(last, e); e.Kind == spec.EventCommandBegun {
				close(following)
			}
			return nil
		})
	}()
	<-following
	if err := other.Shutdown(context.Background(), -1); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the following ends with %v", err)
	}
	n := len(last)
	if n < 3 || last[n-1].Kind != spec.EventClosing || last[n-2].Kind != spec.EventCommandEnded || last[n-3].Kind != spec.EventKilled || last[n-3].Reason != "closing" {
		t.Errorf("the last events: %+v", last)
	}
	_, _ = p.Wait(context.Background())
}
