//go:build linux

package job

import "time"

// Asked returns the grace with which a job is to end as soon as it runs.
func (j *Job) Asked() (grace time.Duration, ok bool) {
	j.registry.mu.Lock()
	defer j.registry.mu.Unlock()
	if j.asked == nil {
		return 0, false
	}
	return *j.asked, true
}
