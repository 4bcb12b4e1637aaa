//go:build linux

package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/wire"
)

// A silence is told of once, and again only after the job has written; untold stalls are
// one, the latest.
func TestStall(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir, job.DefaultRetention)
		j := run(t, r, job.Request{ID: "1", Owner: "a", StallAfter: time.Minute}, "one\n")
		l := listen(t, r, "a", "x", false)
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		wait(59 * time.Second)
		wantEvents(t, l)
		wait(2 * time.Second)
		wantEvents(t, l, "job-1/stall/1")
		wait(time.Hour)
		wantEvents(t, l)
		l.Acknowledge("job-1/stall/1")
		j.Write([]byte("two\n"))
		wait(50 * time.Second)
		j.Write([]byte("three\n"))
		wait(50 * time.Second)
		wantEvents(t, l)
		wait(11 * time.Second)
		l.Close()
		// Nobody listens: the latest is kept, with what the job was then.
		j.Write([]byte("four\n"))
		wait(2 * time.Minute)
		gone := make(chan struct{})
		close(gone)
		l = listen(t, r, "a", "x", false)
		e, err := l.Next(gone)
		if err != nil || e == nil || e.Seq != "job-1/stall/3" || e.Job.LogLines != 4 || time.Duration(e.StalledNS) < time.Minute {
			t.Fatalf("%+v, %v", e, err)
		}
		// Handed over, it is the new owner's, unless the old one says that it knows.
		if _, err := r.HandOver("a", "b", nil); err != nil {
			t.Error(err)
		}
		l.Close()
		other := listen(t, r, "b", "x", false)
		wantEvents(t, other, "job-1/stall/3")
		j.Write([]byte("five\n"))
		wait(2 * time.Minute) // while the one before is on its way
		wantEvents(t, other, "job-1/stall/4")
		other.Acknowledge("job-1/stall/3")
		j.Ended(&wire.Exit{}, false)
		wait(time.Hour)
		wantEvents(t, other, "job-1/end")
		other.Close()
	})
	r := open(t, dir, job.DefaultRetention) // what was not acknowledged is still there
	wantEvents(t, listen(t, r, "b", "x", false), "job-1/stall/4", "job-1/end")
}
