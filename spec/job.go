package spec

import "time"

// JobDurability says how long the jobs of a place live.
type JobDurability string

// The durabilities, the weakest first.
const (
	JobsNone    JobDurability = ""        // the place has no jobs
	JobsProcess JobDurability = "process" // a job ends with the program that made the place, or soon after
	JobsDurable JobDurability = "durable" // a job outlives its client, and any other client finds it
)

// DefaultMaxLogBytes is the most that a job's log holds: 1 GiB.
const DefaultMaxLogBytes = 1 << 30

// MaxLogBytes is the most that JobOptions.MaxLogBytes can be: 64 GiB.
const MaxLogBytes = 64 << 30

// MaxOwnerBytes bounds the name of an owner.
const MaxOwnerBytes = MaxKeyBytes

// JobOptions say how a command runs as a job.
type JobOptions struct {
	// Owner is the name under which the job is found, waited for and told of.
	// It has the grammar of a Key, or is empty, which is an owner like others.
	// A job of another owner is as unknown as one that never was.
	Owner string
	// StallAfter has the owner told when the job has run and written nothing
	// for so long: once, and again only after it has written. 0: never. A stall
	// ends nothing.
	StallAfter time.Duration
	// MaxLogBytes stops the log and never the job: what comes after is read,
	// counted and dropped, as it is when the place's disk is full. 0:
	// DefaultMaxLogBytes; at most MaxLogBytes.
	MaxLogBytes int64
	// Terminal runs the job on a terminal of this size, where that is not nil: its output
	// is then what a terminal gets, stderr included. A place without terminals refuses it
	// with CodeUnsupported.
	Terminal *TerminalSize
}

// JobState is what a job is doing.
type JobState string

// The states of a job.
const (
	JobRunning JobState = "running"
	JobExited  JobState = "exited" // by itself, or by a signal that was not ours
	JobKilled  JobState = "killed" // by KillJob, a timeout, or the end of its place
	JobLost    JobState = "lost"   // it ran when its guest died; nothing more is known
)

// Job describes one job. The record stays after the end, until it is over the
// place's retention: 1,000 that have ended, with 4 GiB of logs. Those go first of
// whose end the owner has been told, of these the one that ended first; the latest
// one stays in any case. The kept output of commands is counted apart, with the same
// bounds.
type Job struct {
	ID    string // "job-1", "job-2", ...: unique in the place, never used again
	Owner string
	Args  []string // as they were given; of long ones the first 16 KiB
	Dir   string   // as it was given
	State JobState
	PID   int // the leader's, as seen inside the place
	// Terminal: it runs on a terminal, which AttachTerminal does not know.
	Terminal bool

	Started time.Time // by the place's clock
	Ended   time.Time // zero while it runs; of a lost one when that was found
	// Exit is valid unless State is JobRunning or JobLost.
	Exit Exit

	// LogLines and LogBytes are what the log holds now; a last line without a
	// newline counts. LogOmittedBytes came after the log was full.
	LogLines, LogBytes, LogOmittedBytes int64
	// LogPath is where the log lies inside the place, readable like any file.
	LogPath string
}

// Running reports whether the job has not ended yet.
func (j Job) Running() bool { return j.State == JobRunning }

// JobQuery selects jobs of one owner.
type JobQuery struct {
	Owner string
	// IDs, if not empty, are the jobs that are asked for; one that is unknown
	// is CodeNotFound.
	IDs []string
}

// LogWindow says what part of a job's log is wanted. The zero value is all of it.
// Lines are numbered from 1 and end with their newline.
type LogWindow struct {
	// From is the first line; 0 is 1. A negative one counts from the end: -10
	// begins with the tenth line from the end, or the first one. Past the end
	// nothing is shown, or with Follow what is written next.
	From int64
	// Lines is the most lines; 0: to the end.
	Lines int64
	// Offset, if positive, is the first byte, counted from 0; From must be 0.
	// What is left of the line that it lies in counts as a line.
	Offset int64
	// MaxBytes is the most bytes; 0: no limit.
	MaxBytes int64
	// Follow goes on at the end of the log with what is written later, until
	// the job has ended and its log is complete.
	Follow bool
}

// LogInfo says what a window shows.
type LogInfo struct {
	FirstLine int64 // the number of the line in which the window begins; past the end it is one more than Lines
	Offset    int64 // of the window's first byte
	// Lines and Bytes are of the whole log when the window was opened. Complete:
	// it does not grow any more.
	Lines, Bytes int64
	Complete     bool
}

// JobEventKind says what happened to a job.
type JobEventKind string

// The kinds of events.
const (
	JobEnded   JobEventKind = "ended"
	JobStalled JobEventKind = "stalled"
)

// JobEvent is something that the owner of a job is told once.
type JobEvent struct {
	Kind JobEventKind
	Job  Job // as it was then
	// StalledFor is how long the job had been silent; at least its StallAfter.
	StalledFor time.Duration
}
