//go:build linux

package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// event is something that the owner of a job has not been told of. It is guarded by the
// registry's lock.
type event struct {
	job    *Job
	seq    string
	stall  *stall    // nil: the end
	n      int64     // which of its stalls
	holder *Listener // that it has been sent to; nil: none
}

// Listener is one listening of an owner.
type Listener struct {
	registry *Registry
	owner    string
	id       string
	wake     chan struct{}
	stale    bool // another one has taken over
	sent     int  // events that it holds
}

// staleGrace is how long a listener that another one has taken over from may take to
// acknowledge what it has been sent; then the other one is told of it too.
const staleGrace = 5 * time.Second

var errTakenOver = spec.New(spec.CodeStaleOwner, "another listener has taken over")

// recall queues what the owner of a job has not been told of. The caller holds the
// lock, or has the registry to itself.
func (r *Registry) recall(j *Job) {
	if j.rec.Stall != nil && !slices.ContainsFunc(r.events, func(e *event) bool { return e.job == j && e.stall != nil }) {
		r.queueStall(j)
	}
	if !j.rec.Told {
		r.events = append(r.events, &event{job: j, seq: j.rec.ID + "/end"})
		r.wakeOwner(j)
	}
}

// queueStall queues the latest stall of a job. One that nobody has been sent yet is
// replaced by it. The caller holds the lock.
func (r *Registry) queueStall(j *Job) {
	r.events = slices.DeleteFunc(r.events, func(e *event) bool { return e.job == j && e.stall != nil && e.holder == nil })
	r.events = append(r.events, &event{job: j, seq: fmt.Sprintf("%s/stall/%d", j.rec.ID, j.rec.Stalls), stall: j.rec.Stall, n: j.rec.Stalls})
	r.wakeOwner(j)
}

// stalled is called when a job has been silent for long.
func (j *Job) stalled(silent time.Duration) {
	r := j.registry
	s := j.log.Stats()
	r.mu.Lock()
	if !j.rec.running() {
		r.mu.Unlock()
		return
	}
	j.rec.Stalls++
	j.rec.Stall = &stall{NS: int64(silent), Lines: s.Lines, Bytes: s.Bytes, Omitted: s.Omitted}
	r.queueStall(j)
	r.mu.Unlock()
	if r.OnStall != nil {
		r.OnStall(j)
	}
	_ = j.save()
}

// wakeOwner has the listener of a job's owner look. The caller holds the lock.
func (r *Registry) wakeOwner(j *Job) { r.awake(j.rec.Owner) }

// awake has the listener of an owner look. The caller holds the lock.
func (r *Registry) awake(owner string) {
	if l := r.listeners[owner]; l != nil {
		l.look()
	}
}

func (l *Listener) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Listen begins to listen for an owner. Another listener of the owner ends, unless it
// is one with another id and this is only to go on: then the other stays.
func (r *Registry) Listen(owner, id string, resume bool) (*Listener, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.listeners[owner]; old != nil {
		same := old.id == id
		if resume && !same {
			return nil, errTakenOver
		}
		old.stale = true
		old.look()
		if same {
			// The host knows what it has been told of.
			r.release(old)
		} else {
			time.AfterFunc(staleGrace, old.Close)
		}
	}
	l := &Listener{registry: r, owner: owner, id: id, wake: make(chan struct{}, 1)}
	r.listeners[owner] = l
	return l, nil
}

// Next returns the next event, once there is one and few enough have been sent ahead.
// It returns nil when gone is closed, and an error when another listener has taken
// over.
func (l *Listener) Next(gone <-chan struct{}) (*wire.JobEvent, error) {
	for {
		e, err := l.take()
		if e != nil || err != nil {
			return e, err
		}
		select {
		case <-l.wake:
		case <-gone:
			return nil, nil
		}
	}
}

// take returns an event that is there to be sent, or nil.
func (l *Listener) take() (*wire.JobEvent, error) {
	r := l.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.stale {
		return nil, errTakenOver
	}
	if l.sent >= wire.JobEventsAhead {
		return nil, nil
	}
	for _, e := range r.events {
		if e.holder == nil && e.job.rec.Owner == l.owner {
			e.holder = l
			l.sent++
			return e.message(), nil
		}
	}
	return nil, nil
}

// message is what is sent of an event: the job as it was then. The caller holds the
// registry's lock.
func (e *event) message() *wire.JobEvent {
	job := e.job.rec.Job
	if e.stall == nil {
		return &wire.JobEvent{Seq: e.seq, Kind: string(spec.JobEnded), Job: &job}
	}
	job.State, job.EndedUnixNS, job.Exit = string(spec.JobRunning), 0, nil
	job.LogLines, job.LogBytes, job.LogOmittedBytes = e.stall.Lines, e.stall.Bytes, e.stall.Omitted
	return &wire.JobEvent{Seq: e.seq, Kind: string(spec.JobStalled), Job: &job, StalledNS: e.stall.NS}
}

// Acknowledge says that the owner has been told of the event with seq.
func (l *Listener) Acknowledge(seq string) {
	r := l.registry
	r.mu.Lock()
	at := slices.IndexFunc(r.events, func(e *event) bool { return e.holder == l && e.seq == seq })
	if at < 0 {
		r.mu.Unlock()
		return
	}
	e := r.events[at]
	r.events = slices.Delete(r.events, at, at+1)
	l.sent--
	l.look()
	switch {
	case e.stall == nil:
		e.job.rec.Told = true
	case e.n == e.job.rec.Stalls:
		e.job.rec.Stall = nil
	}
	r.mu.Unlock()
	_ = e.job.save()
}

// Close ends the listening. What has been sent and not been acknowledged is told to the
// next listener. It is idempotent.
func (l *Listener) Close() {
	r := l.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners[l.owner] == l {
		delete(r.listeners, l.owner)
	}
	r.release(l)
}

// release takes from l the events that it holds. The caller holds the lock.
func (r *Registry) release(l *Listener) {
	for _, e := range r.events {
		if e.holder == l {
			e.holder = nil
			r.wakeOwner(e.job)
		}
	}
	l.sent = 0
}
