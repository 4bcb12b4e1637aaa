package job

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// What is kept of jobs that have ended.
const (
	maxEnded     = 1000
	maxLogsBytes = 4 << 30
	maxArgsBytes = 16 << 10
)

// Registry holds the jobs of a place, over all of its starts. It is safe for concurrent
// use.
type Registry struct {
	fs *memfs.FS

	mu        sync.Mutex
	last      int
	jobs      []*Job // the oldest first
	byKey     map[[2]string]*Job
	ended     []*Job // in the order of their ends
	events    []*event
	listeners map[string]*Listener
	stopping  bool // the place is going down: what ends now was killed
}

// Job is one job, or the kept output of a command.
type Job struct {
	// Log gets the output.
	Log   *Log
	kept  bool // of KeepOutput
	ready chan struct{}
	done  chan struct{}
	err   error // why it did not start; valid once ready is closed

	// What follows is guarded by Registry.mu.
	record  spec.Job
	key     [2]string // owner and key; without a key the latter is empty
	told    bool      // the owner knows of the end, or is not to
	started bool
	kill    func(grace time.Duration)
	// terminated is what was answered to whoever has asked for its end by its key.
	terminated spec.KillOutcome
}

// New returns a Registry whose logs are files of fs, in LogDir.
func New(fs *memfs.FS) *Registry {
	return &Registry{fs: fs, byKey: map[[2]string]*Job{}, listeners: map[string]*Listener{}}
}

// Add makes a job of c that has yet to start, or returns the one that o's owner has
// started under the same key, once it runs. kept marks the kept output of a command,
// which is listed when it has ended and of which nobody is told.
func (r *Registry) Add(c *spec.Command, o spec.JobOptions, kept bool) (j *Job, fresh bool, err error) {
	maxLogBytes := o.MaxLogBytes
	if maxLogBytes == 0 {
		maxLogBytes = spec.DefaultMaxLogBytes
	}
	key := [2]string{o.Owner, c.Key}
	r.mu.Lock()
	if known := r.byKey[key]; known != nil && c.Key != "" && !kept {
		r.mu.Unlock()
		<-known.ready
		return known, false, known.err
	}
	defer r.mu.Unlock()
	r.last++
	id := fmt.Sprintf("job-%d", r.last)
	log, err := newLog(r.fs, id, maxLogBytes)
	if err != nil {
		return nil, false, err
	}
	j = &Job{
		record: spec.Job{ID: id, Owner: o.Owner, Args: clip(c.Args), Dir: c.Dir, State: spec.JobRunning, Started: time.Now(), Terminal: o.Terminal != nil},
		key:    key, kept: kept, told: kept, Log: log, ready: make(chan struct{}), done: make(chan struct{}),
	}
	r.jobs = append(r.jobs, j)
	if c.Key != "" && !kept {
		r.byKey[key] = j
	}
	return j, true, nil
}

// clip keeps the first maxArgsBytes bytes of arguments.
func clip(args []string) []string {
	left := maxArgsBytes
	var out []string
	for _, a := range args {
		if len(a) > left {
			return append(out, a[:left])
		}
		left -= len(a)
		out = append(out, a)
	}
	return out
}

// Started says that a job runs as pid, and how it is ended.
func (r *Registry) Started(j *Job, pid int, kill func(grace time.Duration)) {
	r.mu.Lock()
	j.record.PID, j.started, j.kill = pid, true, kill
	r.mu.Unlock()
	close(j.ready)
}

// Failed says that a job did not start; nothing is left of it.
func (r *Registry) Failed(j *Job, err error) {
	r.mu.Lock()
	r.forget(j)
	r.mu.Unlock()
	j.err = err
	close(j.ready)
}

// forget takes a job out. The caller holds the lock.
func (r *Registry) forget(j *Job) {
	same := func(other *Job) bool { return other == j }
	r.jobs = slices.DeleteFunc(r.jobs, same)
	r.ended = slices.DeleteFunc(r.ended, same)
	r.events = slices.DeleteFunc(r.events, func(e *event) bool { return e.job == j })
	if r.byKey[j.key] == j {
		delete(r.byKey, j.key)
	}
	_ = r.fs.Remove(context.Background(), j.Log.path, files.RemoveOptions{}) // a program may have been faster
}

// Finish says how a job ended, nil if nobody knows. Its log is complete from then on.
func (r *Registry) Finish(j *Job, end *spec.Exit) {
	j.Log.complete()
	r.mu.Lock()
	defer r.mu.Unlock()
	j.record.Ended = time.Now()
	switch {
	case end == nil:
		j.record.State = spec.JobLost
	case end.Kill == spec.KillTerminated || end.Kill == spec.KillUnknown || r.stopping:
		j.record.State, j.record.Exit = spec.JobKilled, *end
	default:
		j.record.State, j.record.Exit = spec.JobExited, *end
	}
	j.Log.fill(&j.record)
	if !j.kept {
		r.tell(&event{job: j, kind: spec.JobEnded, record: j.record})
	}
	r.ended = append(r.ended, j)
	for _, old := range r.surplus(j.kept) {
		r.forget(old)
	}
	close(j.done)
}

// surplus returns which of the jobs, or of the kept output of commands, are over the
// bounds: those first of whose end the owner has been told. The caller holds the lock.
func (r *Registry) surplus(kept bool) (old []*Job) {
	var all []*Job
	var bytes int64
	for _, j := range r.ended {
		if j.kept == kept {
			all = append(all, j)
			bytes += j.record.LogBytes
		}
	}
	for _, told := range []bool{true, false} {
		for _, j := range all[:len(all)-1] { // the latest stays
			if len(all)-len(old) <= maxEnded && bytes <= maxLogsBytes {
				return old
			}
			if j.told == told {
				bytes -= j.record.LogBytes
				old = append(old, j)
			}
		}
	}
	return old
}

// Kill begins to end a job that runs: TERM and, after grace, KILL.
func (r *Registry) Kill(j *Job, grace time.Duration) {
	r.mu.Lock()
	kill := j.kill
	if !j.record.Running() {
		kill = nil
	}
	r.mu.Unlock()
	if kill != nil {
		kill(grace)
	}
}

// ID is the job's id.
func (j *Job) ID() string { return j.record.ID }

// Done is closed when the job has ended and its log is complete.
func (j *Job) Done() <-chan struct{} { return j.done }

// Info is the record of a job as it is now.
func (r *Registry) Info(j *Job) spec.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.info()
}

// info is Info for one who holds the lock.
func (j *Job) info() spec.Job {
	out := j.record
	out.Args = slices.Clone(j.record.Args)
	if out.Running() {
		j.Log.fill(&out)
	}
	return out
}

var errNoJob = spec.New(spec.CodeNotFound, "there is no such job")

// choose returns the jobs that q selects, the oldest first. The caller holds the lock.
func (r *Registry) choose(q spec.JobQuery) ([]*Job, error) {
	var out []*Job
	for _, j := range r.jobs {
		listed := j.started || j.kept && !j.record.Running()
		if listed && j.record.Owner == q.Owner && (len(q.IDs) == 0 || slices.Contains(q.IDs, j.ID())) {
			out = append(out, j)
		}
	}
	for _, id := range q.IDs {
		if !slices.ContainsFunc(out, func(j *Job) bool { return j.ID() == id }) {
			return nil, errNoJob
		}
	}
	return out, nil
}

// List returns the records of the jobs that q selects, the oldest first.
func (r *Registry) List(q spec.JobQuery) ([]spec.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chosen, err := r.choose(q)
	return infos(chosen), err
}

func infos(jobs []*Job) []spec.Job {
	var out []spec.Job
	for _, j := range jobs {
		out = append(out, j.info())
	}
	return out
}

// Find returns one job of an owner.
func (r *Registry) Find(owner, id string) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chosen, err := r.choose(spec.JobQuery{Owner: owner, IDs: []string{id}})
	if err != nil {
		return nil, err
	}
	return chosen[0], nil
}

// HandOver gives running jobs to another owner, with what the first one has not been
// told of them and the keys that the other does not have, and returns those that it moved.
func (r *Registry) HandOver(from spec.JobQuery, to string) ([]spec.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chosen, err := r.choose(from)
	if err != nil || from.Owner == to {
		return nil, err
	}
	moved := slices.DeleteFunc(chosen, func(j *Job) bool { return !j.record.Running() })
	for _, j := range moved {
		j.record.Owner = to
		if j.key[1] != "" {
			r.moveKey(j, to)
		}
	}
	r.wake(to)
	return infos(moved), nil
}

// moveKey gives the key of a job to another owner, unless that has a job under it. The
// caller holds the lock.
func (r *Registry) moveKey(j *Job, to string) {
	delete(r.byKey, j.key)
	if key := [2]string{to, j.key[1]}; r.byKey[key] == nil {
		j.key = key
		r.byKey[key] = j
	} else {
		j.key = [2]string{}
	}
}

// Stopping says that the place is going down, so that what ends now was killed, or that
// it has.
func (r *Registry) Stopping(now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopping = now
}

// Drain waits until the end of every job is written down.
func (r *Registry) Drain(ctx context.Context) {
	r.mu.Lock()
	all := slices.Clone(r.jobs)
	r.mu.Unlock()
	for _, j := range all {
		select {
		case <-j.done:
		case <-ctx.Done():
			return
		}
	}
}
