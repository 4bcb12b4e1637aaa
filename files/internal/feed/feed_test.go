package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/feed"
)

var errOver = errors.New("over")

func event(kind files.WatchKind, path string) files.WatchEvent {
	return files.WatchEvent{Kind: kind, Path: path}
}

// told is what a queue tells that has ended.
func told(t *testing.T, q *feed.Queue) []files.WatchEvent {
	t.Helper()
	q.End(errOver)
	var got []files.WatchEvent
	if err := q.Tell(t.Context(), func(e files.WatchEvent) error {
		got = append(got, e)
		return nil
	}); !errors.Is(err, errOver) {
		t.Errorf("the queue ended for %v", err)
	}
	return got
}

// Several writes are one until that has been told, or something else has come of the
// file.
func TestWrittenIsToldOnce(t *testing.T) {
	written := func(path string) files.WatchEvent { return event(files.WatchWritten, path) }
	q := feed.New()
	in := []files.WatchEvent{
		written("a"), written("b"), written("a"),
		event(files.WatchMode, "a"), written("a"), written("b"),
		{Kind: files.WatchRenamed, Path: "d2", OldPath: "d", Dir: true},
		written("b"), written("b"),
	}
	for _, e := range in {
		q.Put(e)
	}
	want := []files.WatchEvent{in[0], in[1], in[3], in[4], in[6], in[7]}
	if diff := cmp.Diff(want, told(t, q)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// More than a queue holds, by number or by size, is one overflow, and what comes before
// that is told is part of it.
func TestTooMuchIsAnOverflow(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, path := range map[string]func(int) string{
		"events": func(i int) string { return fmt.Sprint(i) },
		"bytes":  func(i int) string { return fmt.Sprint(long, i) },
	} {
		t.Run(name, func(t *testing.T) {
			q := feed.New()
			for i := range feed.MaxEvents + 100 {
				q.Put(event(files.WatchCreated, path(i)))
			}
			taken := 0
			enough := errors.New("enough")
			err := q.Tell(t.Context(), func(e files.WatchEvent) error {
				taken++
				if e.Kind != files.WatchOverflow {
					t.Errorf("told: %.80q", e.Path)
				}
				return enough
			})
			if !errors.Is(err, enough) || taken != 1 {
				t.Errorf("%d told, %v", taken, err)
			}
			after := event(files.WatchCreated, "after")
			q.Put(after)
			if diff := cmp.Diff([]files.WatchEvent{after}, told(t, q)); diff != "" {
				t.Errorf("told after the overflow (-want +got):\n%s", diff)
			}
		})
	}
}

// The end of ctx ends Tell though there is more to tell.
func TestTellEndsWithItsContext(t *testing.T) {
	q := feed.New()
	for i := range 10 {
		q.Put(event(files.WatchCreated, fmt.Sprint(i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := q.Tell(ctx, func(files.WatchEvent) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d told, %v", n, err)
	}
}
