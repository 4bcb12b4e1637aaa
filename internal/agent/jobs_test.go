//go:build linux

package agent_test

import (
	"io"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// jobRequest is a request about a job.
func jobRequest(op wire.Op, r wire.JobRequest) *wire.Request { return &wire.Request{Op: op, Job: &r} }

// What waits for a job and reads its log goes on, on another connection, after the job
// was handed over; a request that comes for the first time does not find it.
func TestJobGoesOnAfterHandOver(t *testing.T) {
	p := startPlace(t, "--state", t.TempDir())
	first := p.dial("first")
	start := jobRequest(wire.OpJobStart, wire.JobRequest{Owner: "a"})
	start.Exec = shell("echo log; exec sleep 300")
	started, err := first.call(start)
	if err != nil {
		t.Fatal(err)
	}
	id := started.Job.ID
	waiting := first.open(jobRequest(wire.OpJobWait, wire.JobRequest{Owner: "a", ID: id}))
	if _, err := first.call(jobRequest(wire.OpJobHandOver, wire.JobRequest{Owner: "a", To: "b"})); err != nil {
		t.Fatal(err)
	}
	first.close()
	if reply, err := wire.ReadReply(waiting); err == nil {
		t.Fatalf("the wait on a connection that is closed: %+v", reply)
	}

	second := p.dial("first")
	if _, err := second.call(jobRequest(wire.OpJobWait, wire.JobRequest{Owner: "a", ID: id})); spec.CodeOf(err) != spec.CodeNotFound {
		t.Errorf("a wait by who has handed it over: %v", err)
	}
	again := second.open(jobRequest(wire.OpJobWait, wire.JobRequest{Owner: "a", ID: id, Resume: true}))
	log := second.open(jobRequest(wire.OpJobLog, wire.JobRequest{Owner: "a", ID: id, Resume: true, Window: &wire.LogWindow{Follow: true}}))
	if reply, err := wire.ReadReply(log); err != nil || reply.Log == nil {
		t.Errorf("the log: %v", err)
	}
	ended := make(chan string, 1)
	go func() {
		reply, err := wire.ReadReply(again)
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- reply.Job.Owner + " " + reply.Job.State
	}()
	killed, err := second.call(jobRequest(wire.OpJobKill, wire.JobRequest{Owner: "a", ID: id, Resume: true}))
	if err != nil || killed.Job.State != string(spec.JobKilled) {
		t.Errorf("the kill that goes on: %+v, %v", killed, err)
	}
	select {
	case got := <-ended:
		if got != "b killed" {
			t.Errorf("the wait that goes on: %s", got)
		}
	case <-time.After(10 * time.Second):
		t.Error("the wait that goes on does not end")
	}
	if data, err := io.ReadAll(wire.NewDataReader(log)); err != nil || string(data) != "log\n" {
		t.Errorf("the log: %q, %v", data, err)
	}
}

// A job that runs holds two descriptors of the guest, its output and its log: every start
// of a process pays for each. When it has ended nothing of it is held, nor its group left.
func TestJobsHoldFewDescriptors(t *testing.T) {
	p := startPlace(t, "--state", t.TempDir())
	h := p.dial("a")
	for range 20 { // as many groups are free as ever are
		h.run(command("true"))
	}
	before := p.steady()
	const count = 20
	var ids []string
	for range count {
		start := jobRequest(wire.OpJobStart, wire.JobRequest{Owner: "a"})
		start.Exec = shell("exec sleep 300")
		started, err := h.call(start)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, started.Job.ID)
	}
	eventually(t, "a job holds two descriptors", func() bool { return p.footprint().fds <= before.fds+2*count })
	for _, id := range ids {
		killed, err := h.call(jobRequest(wire.OpJobKill, wire.JobRequest{Owner: "a", ID: id}))
		if err != nil || killed.Job.State != string(spec.JobKilled) {
			t.Errorf("kill: %+v, %v", killed, err)
		}
	}
	eventually(t, "nothing is held of them", func() bool {
		now := p.footprint()
		return now.fds <= before.fds && now.children == 0
	})
}
