package spec

import "time"

// Running is one command or job of a place whose leader has not ended. A pid is given
// to another process in time: PID and StartTicks together identify one.
type Running struct {
	// ID is the command's; of a job it is the job's.
	ID string `json:"id"`
	// Key is the one that the command was started with, or "".
	Key string `json:"key,omitempty"`
	// Job: it is a job, whose owner is Owner.
	Job   bool   `json:"job,omitempty"`
	Owner string `json:"owner,omitempty"`
	// Name is the program's, as it was asked for: argv[0], at most 256 bytes.
	Name string `json:"name"`
	// PID is the leader's as the place sees it, StartTicks when it was started, in
	// clock ticks after the place's boot.
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"`
	Started    time.Time `json:"started"`
}
