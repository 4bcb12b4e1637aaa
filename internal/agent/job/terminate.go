//go:build linux

package job

import (
	"errors"

	"github.com/berth-dev/berth/spec"
)

// Names returns the job's id and, as they are now, its owner and key.
func (j *Job) Names() (id, owner, key string) {
	j.registry.mu.Lock()
	defer j.registry.mu.Unlock()
	return j.rec.ID, j.rec.Owner, j.rec.Key
}

var errSeveral = &spec.Error{
	Code: spec.CodeInvalid, Err: errors.New("several owners have a job with this key"), Hint: "end the jobs of one owner by their ids",
}

// keyed returns the job that a key means whose owner is not named: that of the owner
// without a name or, where that has none, the only one; nil: there is none.
func (r *Registry) keyed(key string) (*Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.byKey[name{"", key}]; j != nil {
		return j, nil
	}
	var found *Job
	for n, j := range r.byKey {
		if n.name != key {
			continue
		}
		if found != nil {
			return nil, errSeveral
		}
		found = j
	}
	return found, nil
}

// Terminate ends the job that a key means and says what is known then; the same again as
// long as the job is remembered. end ends one that runs; its KillNone says that it does
// not. KillNone: no job has the key. Where several owners have one, and the owner without
// a name has none, nothing is ended and the error is CodeInvalid.
func (r *Registry) Terminate(key string, end func(*Job) spec.KillOutcome) (spec.KillOutcome, error) {
	j, err := r.keyed(key)
	if j == nil {
		return spec.KillNone, err
	}
	<-j.ready
	if j.err != nil {
		return spec.KillNone, nil
	}
	if outcome := end(j); outcome != spec.KillNone {
		return j.Settle(outcome), nil
	}
	r.mu.Lock()
	lost := j.rec.State == string(spec.JobLost)
	r.mu.Unlock()
	if lost {
		return spec.KillUnknown, nil
	}
	return j.Settle(spec.KillExited), nil
}

// Settle makes outcome the answer to Terminate from now on, unless there is one, and
// returns it.
func (j *Job) Settle(outcome spec.KillOutcome) spec.KillOutcome {
	r := j.registry
	r.mu.Lock()
	if known := spec.KillOutcome(j.rec.Terminated); known != spec.KillNone {
		r.mu.Unlock()
		return known
	}
	j.rec.Terminated = string(outcome)
	r.mu.Unlock()
	_ = j.save() // without it a later guest answers by the end of the job
	return outcome
}
