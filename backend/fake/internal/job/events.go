package job

import (
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/spec"
)

// event is something that the owner of a job has not been told of. It is guarded by the
// registry's lock.
type event struct {
	job    *Job
	kind   spec.JobEventKind
	record spec.Job // as the job was then
	silent time.Duration
	holder *Listener // who is telling it; nil: nobody
}

// Listener is one listening of an owner.
type Listener struct {
	r     *Registry
	owner string
	look  chan struct{}
	stale bool // another one has taken over
}

// staleGrace is how long a listener that another one has taken over from may take to
// tell of an event; then the other one is told of it too.
const staleGrace = 5 * time.Second

// Listen begins to listen for an owner. Another listener of the owner ends.
func (r *Registry) Listen(owner string) *Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &Listener{r: r, owner: owner, look: make(chan struct{}, 1)}
	if old := r.listeners[owner]; old != nil {
		old.stale = true
		r.wake(owner)
		time.AfterFunc(staleGrace, old.release)
	}
	r.listeners[owner] = l
	return l
}

// Close ends the listening.
func (l *Listener) Close() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.r.listeners[l.owner] == l {
		delete(l.r.listeners, l.owner)
	}
}

// release gives back the event that l is telling.
func (l *Listener) release() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	for _, e := range l.r.events {
		if e.holder == l {
			e.holder = nil
			l.r.wake(e.job.record.Owner)
		}
	}
}

// Tell calls tell with the next event, once there is one. An event for which tell
// returns an error is told again to the next listener. It returns that error, the
// context's, or CodeStaleOwner when another listener has taken over.
func (l *Listener) Tell(ctx context.Context, tell func(spec.JobEvent) error) error {
	for {
		e, err := l.take()
		if err != nil {
			return err
		}
		if e != nil {
			record := e.record
			record.Owner, record.Args = l.owner, slices.Clone(record.Args)
			err := tell(spec.JobEvent{Kind: e.kind, Job: record, StalledFor: e.silent})
			l.settle(e, err == nil)
			return err
		}
		select {
		case <-l.look:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take returns the next event, which l holds then, or nil.
func (l *Listener) take() (*event, error) {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.stale {
		return nil, spec.New(spec.CodeStaleOwner, "another listener has taken over")
	}
	for _, e := range l.r.events {
		if e.holder == nil && e.job.record.Owner == l.owner {
			e.holder = l
			return e, nil
		}
	}
	return nil, nil
}

// settle forgets an event that was told, and gives back one that was not. What has been
// given back already is the next listener's.
func (l *Listener) settle(e *event, told bool) {
	if !told {
		l.release()
		return
	}
	r := l.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.holder != l {
		return
	}
	e.job.told = e.job.told || e.kind == spec.JobEnded
	r.events = slices.DeleteFunc(r.events, func(other *event) bool { return other == e })
}

// Stalled queues that a running job has been silent for long. It takes the place of an
// earlier silence that nobody has begun to tell.
func (r *Registry) Stalled(j *Job, silent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !j.record.Running() {
		return
	}
	r.events = slices.DeleteFunc(r.events, func(old *event) bool {
		return old.job == j && old.kind == spec.JobStalled && old.holder == nil
	})
	r.tell(&event{job: j, kind: spec.JobStalled, record: j.info(), silent: silent})
}

// tell queues an event. The caller holds the lock.
func (r *Registry) tell(e *event) {
	r.events = append(r.events, e)
	r.wake(e.job.record.Owner)
}

// wake has the listener of an owner look. The caller holds the lock.
func (r *Registry) wake(owner string) {
	if l := r.listeners[owner]; l != nil {
		select {
		case l.look <- struct{}{}:
		default:
		}
	}
}
