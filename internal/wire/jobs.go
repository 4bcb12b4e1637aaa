package wire

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The operations on jobs. OpJobStart carries the parts Exec and Job, so that a guest
// that knows no jobs refuses it instead of running a command. It may be repeated with
// the same Exec.ID: the job runs once.
const (
	OpJobStart    Op = "job_start"     // reply{job}
	OpJobList     Op = "job_list"      // replies with jobs, the last one has Done
	OpJobWait     Op = "job_wait"      // reply{job} once it has ended
	OpJobKill     Op = "job_kill"      // reply{job} once it has ended
	OpJobLog      Op = "job_log"       // reply{log}, then data frames and an end
	OpJobHandOver Op = "job_hand_over" // replies like those to a list
	OpJobEvents   Op = "job_events"    // reply; then events from the guest, acknowledgements from the host
)

// JobRequest is the part that all operations on jobs have. Owner is whose jobs are
// meant; which of the others are used depends on the operation.
type JobRequest struct {
	Owner string   `json:"owner,omitempty"`
	ID    string   `json:"id,omitempty"`
	IDs   []string `json:"ids,omitempty"` // list and hand-over: only these
	To    string   `json:"to,omitempty"`  // hand-over: the new owner

	StallMS     int64 `json:"stall_ms,omitempty"` // start
	MaxLogBytes int64 `json:"max_log_bytes,omitempty"`
	GraceMS     int64 `json:"grace_ms,omitempty"` // kill

	Window *LogWindow `json:"window,omitempty"` // log

	// Listener is chosen by the host for one listening.
	Listener string `json:"listener,omitempty"`
	// Resume says that the request goes on with what another connection had begun:
	// a start, wait, kill or log with a job that may have been handed over since, a
	// listening unless somebody else has taken over.
	Resume bool `json:"resume,omitempty"`
}

// MaxJobIDs is the most ids that one request names.
const MaxJobIDs = 4096

// LogWindow is spec.LogWindow on the wire.
type LogWindow struct {
	From     int64 `json:"from,omitempty"`
	Lines    int64 `json:"lines,omitempty"`
	Offset   int64 `json:"offset,omitempty"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	Follow   bool  `json:"follow,omitempty"`
}

// LogInfo is spec.LogInfo on the wire.
type LogInfo struct {
	FirstLine int64 `json:"first_line"`
	Offset    int64 `json:"offset"`
	Lines     int64 `json:"lines"`
	Bytes     int64 `json:"bytes"`
	Complete  bool  `json:"complete,omitempty"`
}

// Spec checks and converts what a guest said.
func (l *LogInfo) Spec() (spec.LogInfo, error) {
	if l.FirstLine < 1 || l.Offset < 0 || l.Lines < 0 || l.Offset > l.Bytes || l.Lines > l.Bytes || l.FirstLine > l.Lines+1 {
		return spec.LogInfo{}, violation("log record out of range")
	}
	return spec.LogInfo(*l), nil
}

// Job is spec.Job on the wire.
type Job struct {
	ID              string  `json:"id"`
	Owner           string  `json:"owner,omitempty"`
	Args            []Bytes `json:"args"`
	Dir             Bytes   `json:"dir,omitempty"`
	State           string  `json:"state"`
	PID             int     `json:"pid,omitempty"`
	StartedUnixNS   int64   `json:"started_unix_ns"`
	EndedUnixNS     int64   `json:"ended_unix_ns,omitempty"`
	Exit            *Exit   `json:"exit,omitempty"`
	LogLines        int64   `json:"log_lines,omitempty"`
	LogBytes        int64   `json:"log_bytes,omitempty"`
	LogOmittedBytes int64   `json:"log_omitted_bytes,omitempty"`
	LogPath         Bytes   `json:"log_path,omitempty"`
	Terminal        bool    `json:"terminal,omitempty"` // since 1.3
}

// What a record holds at most of the arguments of a job, and how many jobs one reply.
const (
	MaxJobArgBytes = 16 << 10
	MaxJobArgs     = 1024
	JobBatch       = 256
)

// JobArgs is what a record holds of args: all, or their beginning.
func JobArgs(args []string) []Bytes {
	var out []Bytes
	left := MaxJobArgBytes
	for _, a := range args[:min(len(args), MaxJobArgs)] {
		if left < len(a) {
			a = a[:left]
		}
		left -= len(a)
		out = append(out, Bytes(a))
		if left == 0 {
			break
		}
	}
	return out
}

// JobID is the id of a place's nth job.
func JobID(n int64) string { return jobPrefix + strconv.FormatInt(n, 10) }

const (
	jobPrefix    = "job-"
	maxJobNumber = 1 << 53
)

// JobNumber is the number in the id of a job, and whether it is one.
func JobNumber(id string) (int64, bool) {
	digits, ok := strings.CutPrefix(id, jobPrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, ok && err == nil && n > 0 && n <= maxJobNumber && JobID(n) == id
}

func jobIDOrNone(id string) bool {
	_, ok := JobNumber(id)
	return ok || id == ""
}

// Spec checks and converts what a guest said: a record that contradicts itself is
// refused whole.
func (j *Job) Spec() (spec.Job, error) {
	out := spec.Job{
		ID: j.ID, Owner: j.Owner, Dir: string(j.Dir), State: spec.JobState(j.State), PID: j.PID,
		Started: time.Unix(0, j.StartedUnixNS), LogLines: j.LogLines, LogBytes: j.LogBytes,
		LogOmittedBytes: j.LogOmittedBytes, LogPath: string(j.LogPath), Terminal: j.Terminal,
	}
	if _, ok := JobNumber(j.ID); !ok || spec.ValidateOwner(j.Owner) != nil {
		return spec.Job{}, violation("job %.64q of owner %.64q", j.ID, j.Owner)
	}
	total := 0
	for _, a := range j.Args {
		out.Args = append(out.Args, string(a))
		total += len(a)
	}
	if total > MaxJobArgBytes || len(j.Args) > MaxJobArgs || len(j.Dir) > spec.MaxPathBytes || len(j.LogPath) > spec.MaxPathBytes ||
		j.PID < 0 || j.PID > math.MaxInt32 || j.StartedUnixNS < 0 || j.EndedUnixNS < 0 ||
		min(j.LogLines, j.LogBytes, j.LogOmittedBytes) < 0 || j.LogBytes > spec.MaxLogBytes || j.LogLines > j.LogBytes {
		return spec.Job{}, violation("record of %s out of range", j.ID)
	}
	exited := false
	switch out.State {
	case spec.JobRunning, spec.JobLost:
	case spec.JobExited, spec.JobKilled:
		exited = true
	default:
		return spec.Job{}, violation("%s is %.64q", j.ID, j.State)
	}
	if exited != (j.Exit != nil) || out.Running() != (j.EndedUnixNS == 0) {
		return spec.Job{}, violation("%s is %s and has, or has not, ended", j.ID, j.State)
	}
	if !out.Running() { // no earlier than its start, though the place's clock was set back
		out.Ended = time.Unix(0, max(j.EndedUnixNS, j.StartedUnixNS))
	}
	if exited {
		exit, err := j.Exit.Spec()
		if err != nil {
			return spec.Job{}, err
		}
		out.Exit = exit
	}
	return out, nil
}

// JobEvent is what the guest sends to a listener: Err, which is its last, or an event.
// It sends up to JobEventsAhead events before the first is acknowledged.
type JobEvent struct {
	// Seq is the event's, for its acknowledgement. The same event sent again, on
	// whatever connection and by whatever life of the guest, has the same one.
	Seq       string `json:"seq,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Job       *Job   `json:"job,omitempty"`
	StalledNS int64  `json:"stalled_ns,omitempty"`
	Err       *Error `json:"err,omitempty"`
}

// JobEventsAhead is how many events the guest sends ahead of their acknowledgement.
const JobEventsAhead = 32

// MaxJobEventBytes bounds one event.
const MaxJobEventBytes = 256 << 10

const maxSeqBytes = 64

// Spec checks and converts an event.
func (e *JobEvent) Spec() (spec.JobEvent, error) {
	if e.Job == nil || e.Seq == "" || len(e.Seq) > maxSeqBytes || e.StalledNS < 0 {
		return spec.JobEvent{}, violation("job event out of range")
	}
	job, err := e.Job.Spec()
	if err != nil {
		return spec.JobEvent{}, err
	}
	kind := spec.JobEventKind(e.Kind)
	if kind != spec.JobEnded && kind != spec.JobStalled || (kind == spec.JobEnded) == job.Running() {
		return spec.JobEvent{}, violation("event %.64q of a job that is %s", e.Kind, job.State)
	}
	return spec.JobEvent{Kind: kind, Job: job, StalledFor: time.Duration(e.StalledNS)}, nil
}

// JobAck says that the owner has been told of the event with Seq.
type JobAck struct {
	Seq string `json:"seq"`
}
