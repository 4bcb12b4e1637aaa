//go:build linux

package job

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/joblog"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Retention bounds what is kept of jobs that have ended and, counted apart, of the kept
// output of commands. The latest one stays in any case. Those go first of whose end the
// owner has been told.
type Retention struct {
	Jobs     int
	LogBytes int64
}

// DefaultRetention is the one of the contract.
var DefaultRetention = Retention{Jobs: 1000, LogBytes: 4 << 30}

// Registry knows the jobs of a place. It is safe for concurrent use.
type Registry struct {
	// OnStall, unless it is nil, is called when a job has been silent for long. It is set
	// before the first job is claimed.
	OnStall func(*Job)

	store *store
	keep  Retention

	mu        sync.Mutex
	jobs      map[string]*Job
	byRequest map[name]*Job
	byKey     map[name]*Job
	last      int64         // the highest number that has been given
	floor     int64         // the number in store.last
	ended     []*Job        // in the order of their ends
	fresh     bool          // no earlier guest has used the directory
	unsaved   map[*Job]bool // whose record on disk is an older one
	events    []*event
	listeners map[string]*Listener
}

// name is a request's id or a key of one owner.
type name struct{ owner, name string }

// recoverTime bounds the counting of lines at a start: what is not done in time is done
// when a log is read.
const recoverTime = 2 * time.Second

// Open takes up the directory dir, which is made if it is missing. What was running is
// lost now.
func Open(dir string, keep Retention) (*Registry, error) {
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		store: s, keep: keep, jobs: map[string]*Job{}, byRequest: map[name]*Job{}, byKey: map[name]*Job{},
		listeners: map[string]*Listener{}, unsaved: map[*Job]bool{},
	}
	records, above, err := s.records(recordsRead * keep.Jobs)
	if err != nil {
		s.dir.Close()
		return nil, err
	}
	r.floor = s.last()
	r.fresh = s.begin() && len(records) == 0 && max(r.floor, above) == 0
	r.last = max(r.floor, above)
	for _, rec := range records {
		r.restore(rec)
	}
	slices.SortStableFunc(r.ended, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.rec.EndedUnixNS, b.rec.EndedUnixNS), cmp.Compare(a.number, b.number))
	})
	for _, j := range r.ended {
		r.recall(j)
	}
	r.mu.Lock()
	old := r.expire()
	r.mu.Unlock()
	r.discard(old)
	r.saveLost()
	return r, nil
}

// Fresh reports whether no earlier guest has used the directory, as far as it tells: it
// lies where commands may be able to reach it.
func (r *Registry) Fresh() bool { return r.fresh }

// recordsRead is how many records are read at a start, for each that may be kept: of the
// jobs, the kept output of commands, and as many again that ran.
const recordsRead = 4

// restore takes in a record of an earlier guest.
func (r *Registry) restore(rec *record) {
	j := r.newJob(rec)
	j.number, _ = wire.JobNumber(rec.ID)
	j.started = true
	close(j.ready)
	close(j.done)
	if j.rec.running() {
		j.rec.lose(time.Now())
		j.rec.LogBytes = min(r.store.size(rec.ID), rec.MaxLogBytes)
		r.unsaved[j] = true
	}
	r.enrol(j)
	r.ended = append(r.ended, j)
	r.last = max(r.last, j.number)
}

// saveLost writes down which jobs were found as lost and are kept.
func (r *Registry) saveLost() {
	ctx, cancel := context.WithTimeout(context.Background(), recoverTime)
	defer cancel()
	for _, j := range slices.Collect(maps.Keys(r.unsaved)) {
		_, _ = j.openLog(ctx) // counts the lines
		_ = j.save()
	}
}

func (r *Registry) newJob(rec *record) *Job {
	rec.LogPath = r.logPath(rec.ID)
	return &Job{registry: r, rec: *rec, ready: make(chan struct{}), done: make(chan struct{})}
}

func (r *Registry) logPath(id string) wire.Bytes {
	return wire.Bytes(r.store.path + "/" + logName(id))
}

// enrol makes j known. The caller holds the lock, or has the registry to itself.
func (r *Registry) enrol(j *Job) {
	r.jobs[j.rec.ID] = j
	r.byRequest[name{j.rec.By, j.rec.Request}] = j
	if j.rec.Key != "" {
		r.byKey[name{j.rec.Owner, j.rec.Key}] = j
	}
}

// strike makes j unknown. The caller holds the lock.
func (r *Registry) strike(j *Job) {
	delete(r.jobs, j.rec.ID)
	delete(r.byRequest, name{j.rec.By, j.rec.Request})
	if key := (name{j.rec.Owner, j.rec.Key}); r.byKey[key] == j {
		delete(r.byKey, key)
	}
	delete(r.unsaved, j)
	r.events = slices.DeleteFunc(r.events, func(e *event) bool { return e.job == j })
	j.gone = true
}

// Request is what Claim is asked for.
type Request struct {
	// ID is the request's, chosen by the host; the same one is the same job.
	ID    string
	Owner string
	Key   string
	Args  []string
	Dir   string
	// StallAfter is the silence that the owner is told of; 0: never.
	StallAfter  time.Duration
	MaxLogBytes int64
	// Terminal says that it runs on one.
	Terminal bool
	// Kept says that it is no job but the kept output of a command.
	Kept bool
}

// Claim returns the job that q means. A fresh one is the caller's to start: it calls
// Started or Failed. A known one has started, or its start has failed with the error.
func (r *Registry) Claim(q Request) (j *Job, fresh bool, err error) {
	r.mu.Lock()
	j = r.byRequest[name{q.Owner, q.ID}]
	if j == nil && q.Key != "" {
		j = r.byKey[name{q.Owner, q.Key}]
	}
	if j != nil {
		r.mu.Unlock()
		<-j.ready
		return j, false, j.err
	}
	if r.last >= maxNumber-maxObstacles {
		r.mu.Unlock()
		return nil, false, errNumbers
	}
	r.last++
	j = r.newJob(&record{
		Job: wire.Job{
			ID: wire.JobID(r.last), Owner: q.Owner, Args: wire.JobArgs(q.Args), Dir: wire.Bytes(q.Dir),
			State: string(spec.JobRunning), StartedUnixNS: time.Now().UnixNano(), Terminal: q.Terminal,
		},
		Request: q.ID, Key: q.Key, By: q.Owner, Kept: q.Kept, Told: q.Kept,
		StallMS: q.StallAfter.Milliseconds(), MaxLogBytes: q.MaxLogBytes,
	})
	j.number, j.watch = r.last, newWatch(q.StallAfter, j.stalled)
	r.enrol(j)
	r.mu.Unlock()

	// On disk before anything runs: it is never run twice, whoever asks again.
	for range maxObstacles {
		if err = r.lay(j); !inTheWay(err) {
			break
		}
		r.renumber(j)
	}
	if err != nil {
		j.Failed(err)
		return nil, false, err
	}
	return j, true, nil
}

// maxObstacles is how many numbers are tried for a job: what lies in the way of its
// files may be a directory, which stays.
const maxObstacles = 16

var errNumbers = spec.New(spec.CodeUnavailable, "the place has given the last number that a job can have")

// lay makes the files of a fresh job.
func (r *Registry) lay(j *Job) error {
	r.store.remove(j.rec.ID) // whoever put it there
	log, err := joblog.Create(r.store.fd(), logName(j.rec.ID), j.rec.MaxLogBytes)
	if err != nil {
		return err
	}
	if err := j.save(); err != nil {
		log.Close()
		r.store.remove(j.rec.ID)
		return err
	}
	j.log = log
	return nil
}

// inTheWay reports whether an error means that what lies there cannot be removed.
func inTheWay(err error) bool { return errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) }

// renumber gives the next number to a fresh job, which nobody has seen.
func (r *Registry) renumber(j *Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.jobs, j.rec.ID)
	r.last++
	j.number = r.last
	j.rec.ID = wire.JobID(j.number)
	j.rec.LogPath = r.logPath(j.rec.ID)
	r.jobs[j.rec.ID] = j
}

var errUnknown = spec.New(spec.CodeNotFound, "no such job")

// Find returns the job with an id, if it is the owner's.
func (r *Registry) Find(owner, id string) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(owner, id)
}

// FindAgain is Find for one who had found the job before: it may have been handed over
// since.
func (r *Registry) FindAgain(owner, id string) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[id]; j != nil && j.listed() && slices.Contains(j.rec.Former, owner) {
		return j, nil
	}
	return r.find(owner, id)
}

// find is Find under the lock.
func (r *Registry) find(owner, id string) (*Job, error) {
	j := r.jobs[id]
	if j == nil || j.rec.Owner != owner || !j.listed() {
		return nil, errUnknown
	}
	return j, nil
}

// List describes the owner's jobs, the oldest first: all, or those with ids.
func (r *Registry) List(owner string, ids []string) ([]wire.Job, error) {
	r.mu.Lock()
	chosen, err := r.choose(owner, ids)
	r.mu.Unlock()
	return describe(chosen), err
}

// choose returns the owner's jobs in the order of their numbers: all, or those with
// ids. The caller holds the lock.
func (r *Registry) choose(owner string, ids []string) ([]*Job, error) {
	var out []*Job
	if len(ids) > 0 {
		for _, id := range ids {
			j, err := r.find(owner, id)
			if err != nil {
				return nil, err
			}
			out = append(out, j)
		}
	} else {
		for _, j := range r.jobs {
			if j.rec.Owner == owner && j.listed() {
				out = append(out, j)
			}
		}
	}
	slices.SortFunc(out, func(a, b *Job) int { return cmp.Compare(a.number, b.number) })
	return slices.Compact(out), nil
}

func describe(jobs []*Job) []wire.Job {
	out := make([]wire.Job, len(jobs))
	for i, j := range jobs {
		out[i] = j.Info()
	}
	return out
}

// HandOver gives running jobs of one owner to another, with what the first has not been
// told of and the keys that the other does not have, and describes what it moved: all,
// or those with ids, of which an unknown one is an error and moves nothing.
func (r *Registry) HandOver(from, to string, ids []string) ([]wire.Job, error) {
	r.mu.Lock()
	chosen, err := r.choose(from, ids)
	if err != nil || from == to {
		r.mu.Unlock()
		return nil, err
	}
	moved := chosen[:0]
	for _, j := range chosen {
		if j.rec.running() {
			r.move(j, to)
			moved = append(moved, j)
		}
	}
	r.awake(to)
	r.mu.Unlock()
	for _, j := range moved {
		_ = j.save()
	}
	return describe(moved), nil
}

// move gives a job to another owner. The caller holds the lock.
func (r *Registry) move(j *Job, to string) {
	from := name{j.rec.Owner, j.rec.Key}
	j.rec.handOver(to)
	if j.rec.Key == "" {
		return
	}
	delete(r.byKey, from)
	if key := (name{to, j.rec.Key}); r.byKey[key] == nil {
		r.byKey[key] = j
	} else {
		j.rec.Key = "" // the owner's own job keeps it
	}
}

// EndAll ends all jobs that run or are being started, with grace, and returns when they
// have ended; after most in any case: there are processes that not even KILL ends.
func (r *Registry) EndAll(grace, most time.Duration) {
	r.mu.Lock()
	var running []*Job
	for _, j := range r.jobs {
		if j.rec.running() {
			running = append(running, j)
		}
	}
	r.mu.Unlock()
	for _, j := range running {
		j.End(grace)
	}
	late := time.NewTimer(most)
	defer late.Stop()
	for _, j := range running {
		select {
		case <-j.Done():
		case <-late.C:
			return
		}
	}
}

// expire makes the oldest jobs unknown that are over the bounds, and returns them. The
// caller holds the lock, and discards them without it.
func (r *Registry) expire() []*Job {
	old := append(r.surplus(true), r.surplus(false)...)
	for _, j := range old {
		r.strike(j)
	}
	r.ended = slices.DeleteFunc(r.ended, func(j *Job) bool { return j.gone })
	return old
}

// surplus returns which of the jobs, or of the kept output of commands, are over the
// bounds. The caller holds the lock.
func (r *Registry) surplus(kept bool) (old []*Job) {
	var all []*Job
	var bytes int64
	for _, j := range r.ended {
		if j.rec.Kept == kept {
			all = append(all, j)
			bytes += j.rec.LogBytes
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, told := range []bool{true, false} {
		for _, j := range all[:len(all)-1] {
			if len(all)-len(old) <= r.keep.Jobs && bytes <= r.keep.LogBytes {
				return old
			}
			if j.rec.Told == told {
				bytes -= j.rec.LogBytes
				old = append(old, j)
			}
		}
	}
	return old
}

// discard removes what is on disk of jobs that are unknown by now.
func (r *Registry) discard(old []*Job) {
	for _, j := range old {
		r.mu.Lock()
		last, known := r.last, r.floor
		r.mu.Unlock()
		if j.number > known && r.store.setLast(last) == nil {
			r.mu.Lock()
			r.floor = max(r.floor, last)
			r.mu.Unlock()
		}
		j.saving.Lock()
		r.store.remove(j.rec.ID)
		j.saving.Unlock()
	}
}
