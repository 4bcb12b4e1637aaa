//go:build linux

package job_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// next takes the events that are there and returns them as "seq kind".
func events(t *testing.T, l *job.Listener) (out []string) {
	t.Helper()
	gone := make(chan struct{})
	close(gone)
	for {
		e, err := l.Next(gone)
		if err != nil {
			return append(out, string(spec.CodeOf(err)))
		}
		if e == nil {
			return out
		}
		out = append(out, e.Seq)
	}
}

func listen(t *testing.T, r *job.Registry, owner, id string, resume bool) *job.Listener {
	t.Helper()
	l, err := r.Listen(owner, id, resume)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantEvents(t *testing.T, l *job.Listener, want ...string) {
	t.Helper()
	if got := events(t, l); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// An event is told once it happened, until it is acknowledged, to one listener; a
// restart changes nothing of it.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "1", Owner: "a"}, "", 0)
	end(t, r, job.Request{ID: "2", Owner: "b"}, "", 0)
	end(t, r, job.Request{ID: "3", Owner: "a"}, "", 0)
	end(t, r, job.Request{ID: "4", Kept: true}, "", 0)
	run(t, r, job.Request{ID: "5", Owner: "a"}, "")
	l := listen(t, r, "a", "x", false)
	wantEvents(t, l, "job-1/end", "job-3/end")
	wantEvents(t, l)
	l.Acknowledge("job-1/end")
	l.Acknowledge("job-2/end") // another owner's: of no effect
	l.Close()
	wantEvents(t, listen(t, r, "", "x", false)) // of what is kept nobody is told

	r = open(t, dir, job.DefaultRetention)
	l = listen(t, r, "a", "x", true)
	wantEvents(t, l, "job-3/end", "job-5/end") // the latter is lost
	for _, seq := range []string{"job-3/end", "job-5/end"} {
		l.Acknowledge(seq)
	}
	l.Close()
	r = open(t, dir, job.DefaultRetention)
	wantEvents(t, listen(t, r, "a", "x", false))
	wantEvents(t, listen(t, r, "b", "x", false), "job-2/end")
}

// Of two listeners the second has what the first was not sent, and what it was sent and
// did not acknowledge once it has left.
func TestTakeOver(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	end(t, r, job.Request{ID: "1"}, "", 0)
	end(t, r, job.Request{ID: "2"}, "", 0)
	first := listen(t, r, "", "first", false)
	wantEvents(t, first, "job-1/end", "job-2/end")
	second := listen(t, r, "", "second", false)
	end(t, r, job.Request{ID: "3"}, "", 0)
	wantEvents(t, second, "job-3/end")
	wantEvents(t, first, "stale_owner")
	first.Acknowledge("job-1/end") // on its way when the second came
	first.Close()
	wantEvents(t, second, "job-2/end")
	if _, err := r.Listen("", "first", true); spec.CodeOf(err) != spec.CodeStaleOwner {
		t.Errorf("the first comes back: %v", err)
	}
	// The second comes back on another connection: it knows what it was told.
	again := listen(t, r, "", "second", true)
	wantEvents(t, again, "job-2/end", "job-3/end")
	second.Close()
	wantEvents(t, again)
	again.Acknowledge("job-2/end")
	again.Acknowledge("job-3/end")
	again.Close()
	wantEvents(t, listen(t, r, "", "third", true))
}

// So many events are sent ahead, and no more.
func TestEventsAhead(t *testing.T) {
	r := open(t, t.TempDir(), job.DefaultRetention)
	for i := range 2 * wire.JobEventsAhead {
		end(t, r, job.Request{ID: fmt.Sprint(i)}, "", 0)
	}
	l := listen(t, r, "", "x", false)
	if got := events(t, l); len(got) != wire.JobEventsAhead {
		t.Errorf("%d events are sent ahead", len(got))
	}
	l.Acknowledge("job-5/end")
	wantEvents(t, l, fmt.Sprintf("job-%d/end", wire.JobEventsAhead+1))
}

// Only what runs is handed over, with what its owner has not been told of.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	end(t, r, job.Request{ID: "1", Owner: "a"}, "", 0)
	two := run(t, r, job.Request{ID: "2", Owner: "a", Key: "k"}, "")
	run(t, r, job.Request{ID: "3", Owner: "a"}, "")
	if moved, err := r.HandOver("a", "b", []string{"job-2", "job-9"}); spec.CodeOf(err) != spec.CodeNotFound || moved != nil {
		t.Errorf("%v, %v", moved, err)
	}
	if moved, err := r.HandOver("a", "a", nil); err != nil || len(moved) != 0 {
		t.Errorf("%v, %v", moved, err)
	}
	want(t, "before", ids(list(t, r, "a")), "job-1:exited job-2:running job-3:running")
	moved, err := r.HandOver("a", "b", []string{"job-2", "job-1", "job-2"})
	if err != nil {
		t.Error(err)
	}
	want(t, "moved", ids(moved), "job-2:running")
	want(t, "the old owner", ids(list(t, r, "a")), "job-1:exited job-3:running")
	want(t, "the new owner", ids(list(t, r, "b")), "job-2:running")
	two.Ended(&wire.Exit{}, true)
	wantEvents(t, listen(t, r, "b", "x", false), "job-2/end")
	wantEvents(t, listen(t, r, "a", "x", false), "job-1/end")
	want(t, "after a restart", ids(list(t, open(t, dir, job.DefaultRetention), "b")), "job-2:killed")
}

// A key goes with its job to the new owner, unless that has a job under the same key; a
// request is the same job all the same. A restart changes nothing of it.
func TestHandOverOfAKey(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	run(t, r, job.Request{ID: "1", Owner: "a", Key: "k"}, "")
	run(t, r, job.Request{ID: "2", Owner: "a", Key: "both"}, "")
	run(t, r, job.Request{ID: "3", Owner: "b", Key: "both"}, "")
	if moved, err := r.HandOver("a", "b", nil); err != nil || ids(moved) != "job-1:running job-2:running" {
		t.Fatalf("%v, %v", moved, err)
	}
	check := func(r *job.Registry) {
		t.Helper()
		for _, c := range []struct {
			q    job.Request
			want string
		}{
			{job.Request{ID: "x1", Owner: "b", Key: "k"}, "job-1"},
			{job.Request{ID: "x2", Owner: "b", Key: "both"}, "job-3"},
			{job.Request{ID: "1", Owner: "a", Key: "k"}, "job-1"},
			{job.Request{ID: "2", Owner: "a"}, "job-2"},
		} {
			c.q.MaxLogBytes = 1
			if j, fresh, err := r.Claim(c.q); err != nil || fresh || j.ID() != c.want {
				t.Errorf("%+v finds %s, %v, %v; want %s", c.q, j.ID(), fresh, err, c.want)
			}
		}
	}
	check(r)
	check(open(t, dir, job.DefaultRetention))
	run(t, r, job.Request{ID: "4", Owner: "a", Key: "k"}, "") // a fresh one
}

// Who waits for a job goes on with it after a hand-over, and after the next.
func TestFindAgain(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, job.DefaultRetention)
	run(t, r, job.Request{ID: "1", Owner: "a"}, "")
	for _, way := range [][2]string{{"a", "b"}, {"b", "c"}} {
		if _, err := r.HandOver(way[0], way[1], nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*job.Registry{r, open(t, dir, job.DefaultRetention)} {
		for _, owner := range []string{"a", "b", "c"} {
			if j, err := r.FindAgain(owner, "job-1"); err != nil || j.ID() != "job-1" {
				t.Errorf("%s: %v", owner, err)
			}
			if _, err := r.Find(owner, "job-1"); (err == nil) != (owner == "c") {
				t.Errorf("%s finds it for the first time: %v", owner, err)
			}
		}
		if _, err := r.FindAgain("d", "job-1"); spec.CodeOf(err) != spec.CodeNotFound {
			t.Errorf("a stranger: %v", err)
		}
	}
}
