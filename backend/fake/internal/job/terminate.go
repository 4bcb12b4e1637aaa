package job

import (
	"errors"

	"github.com/berth-dev/berth/spec"
)

// Names returns the job's id and, as they are now, its owner and key.
func (r *Registry) Names(j *Job) (id, owner, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.record.ID, j.record.Owner, j.key[1]
}

var errSeveral = &spec.Error{
	Code: spec.CodeInvalid, Err: errors.New("several owners have a job with this key"), Hint: "end the jobs of one owner by their ids",
}

// Keyed returns the job that a key means whose owner is not named, once it runs: that of
// the owner without a name or, where that has none, the only one; nil: there is none.
func (r *Registry) Keyed(key string) (*Job, error) {
	r.mu.Lock()
	j := r.byKey[[2]string{"", key}]
	several := false
	if j == nil {
		for n, other := range r.byKey {
			if n[1] == key {
				several = j != nil
				j = other
			}
			if several {
				break
			}
		}
	}
	r.mu.Unlock()
	switch {
	case several:
		return nil, errSeveral
	case j == nil:
		return nil, nil
	}
	<-j.ready
	if j.err != nil {
		return nil, nil
	}
	return j, nil
}

// Settle makes outcome the answer about a job from now on, unless there is one, and
// returns it. A job that was lost is KillUnknown.
func (r *Registry) Settle(j *Job, outcome spec.KillOutcome) spec.KillOutcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case j.terminated != spec.KillNone:
	case j.record.State == spec.JobLost:
		j.terminated = spec.KillUnknown
	default:
		j.terminated = outcome
	}
	return j.terminated
}
