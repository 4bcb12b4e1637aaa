//go:build linux

package job

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/joblog"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Job is one job, or the kept output of one command.
type Job struct {
	registry *Registry
	number   int64
	ready    chan struct{} // closed when it has started or failed to
	err      error         // valid then
	done     chan struct{} // closed when it has ended, its log complete and its record written, or has failed to start
	watch    *watch

	saving sync.Mutex // one writing of the record at a time

	// What follows is guarded by the registry's lock.
	rec     record
	log     *joblog.Log // nil: not opened since the guest began
	started bool        // its start is over and it ran
	end     func(grace time.Duration)
	asked   *time.Duration // the grace of an End that came before there was an end
	gone    bool           // unknown: nothing is written any more
}

// ID is the job's id.
func (j *Job) ID() string { return wire.JobID(j.number) }

// Done is closed when the job has ended, its log is complete and its record written, or
// when it has failed to start.
func (j *Job) Done() <-chan struct{} { return j.done }

// listed reports whether anybody may see it. The caller holds the registry's lock.
func (j *Job) listed() bool { return j.started && (!j.rec.Kept || !j.rec.running()) }

// Started says that the job runs as pid. end is called to end it, from any goroutine
// and again; it begins the ending and does not wait.
func (j *Job) Started(pid int, end func(grace time.Duration)) {
	j.registry.mu.Lock()
	j.rec.PID, j.started, j.end = pid, true, end
	asked := j.asked
	j.registry.mu.Unlock()
	_ = j.save() // without it the record lacks the pid
	j.watch.begin()
	close(j.ready)
	if asked != nil {
		end(*asked)
	}
}

// Failed says that the job did not start; nothing is left of it.
func (j *Job) Failed(err error) {
	r := j.registry
	r.mu.Lock()
	r.strike(j)
	r.mu.Unlock()
	if j.log != nil {
		j.log.Close()
	}
	r.discard([]*Job{j})
	j.err = err
	close(j.ready)
	close(j.done)
}

// Write takes output. It never fails.
func (j *Job) Write(p []byte) (int, error) {
	n, err := j.log.Write(p)
	j.watch.noise()
	return n, err
}

// Ended says how the job ended. killed: by us, rather than by itself. Its log is
// complete from then on.
func (j *Job) Ended(exit *wire.Exit, killed bool) {
	j.watch.stop()
	j.log.Close()
	stats := j.log.Stats()
	state := spec.JobExited
	if killed {
		state = spec.JobKilled
	}
	copied := *exit
	r := j.registry
	r.mu.Lock()
	j.rec.State, j.rec.EndedUnixNS, j.rec.Exit = string(state), time.Now().UnixNano(), &copied
	j.rec.LogLines, j.rec.LogBytes, j.rec.LogOmittedBytes = stats.Lines, stats.Bytes, stats.Omitted
	j.end = nil
	r.mu.Unlock()
	_ = j.save() // what cannot be written now is written with the next record

	r.mu.Lock()
	r.ended = append(r.ended, j)
	r.recall(j)
	old := r.expire()
	r.mu.Unlock()
	close(j.done)
	r.discard(old)
}

// End begins to end the job, if it runs: TERM and, after grace, KILL. One that is being
// started is ended as soon as it runs.
func (j *Job) End(grace time.Duration) {
	j.registry.mu.Lock()
	end := j.end
	if !j.started && (j.asked == nil || grace < *j.asked) {
		j.asked = &grace
	}
	j.registry.mu.Unlock()
	if end != nil {
		end(grace)
	}
}

// Info describes the job as it is now.
func (j *Job) Info() wire.Job {
	j.registry.mu.Lock()
	out, log, running := j.rec.Job, j.log, j.rec.running()
	j.registry.mu.Unlock()
	if running && log != nil {
		s := log.Stats()
		out.LogLines, out.LogBytes, out.LogOmittedBytes = s.Lines, s.Bytes, s.Omitted
	}
	return out
}

// OpenLog opens a window of the job's log. ctx bounds what has to be counted first.
func (j *Job) OpenLog(ctx context.Context, w spec.LogWindow) (*joblog.Reader, error) {
	log, err := j.openLog(ctx)
	if err != nil {
		return nil, err
	}
	return log.Read(w)
}

// openLog returns the log, which an earlier guest may have written.
func (j *Job) openLog(ctx context.Context) (*joblog.Log, error) {
	r := j.registry
	r.mu.Lock()
	log, id, limit := j.log, j.rec.ID, j.rec.MaxLogBytes
	r.mu.Unlock()
	if log != nil {
		return log, nil
	}
	log, err := joblog.Open(ctx, r.store.fd(), logName(id), limit)
	if err != nil {
		return nil, err
	}
	s := log.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	j.log, j.rec.LogLines = log, s.Lines
	return log, nil
}

// save writes the record, and then those that could not be written before.
func (j *Job) save() error {
	if err := j.write(); err != nil {
		return err
	}
	r := j.registry
	r.mu.Lock()
	late := slices.Collect(maps.Keys(r.unsaved))
	r.mu.Unlock()
	for _, other := range late {
		if other.write() != nil {
			break
		}
	}
	return nil
}

// write writes the record, and notes whether it could.
func (j *Job) write() error {
	j.saving.Lock()
	defer j.saving.Unlock()
	r := j.registry
	r.mu.Lock()
	if j.gone {
		r.mu.Unlock()
		return nil
	}
	data, err := j.rec.encode()
	r.mu.Unlock()
	if err == nil {
		err = r.store.write(j.ID()+recordSuffix, data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil || j.gone {
		delete(r.unsaved, j)
	} else {
		r.unsaved[j] = true
	}
	return err
}
