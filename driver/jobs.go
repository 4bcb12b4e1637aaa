package driver

import (
	"context"
	"io"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Jobber is a Session whose place runs jobs: commands that belong to the place and
// not to a client, whose output goes to a log inside the place. Caps.Jobs says how
// long they live.
//
// Every call names an owner. A job of another one is CodeNotFound, as one that
// never was.
type Jobber interface {
	// StartJob starts c as a job and returns once it runs. Its input is empty,
	// stdout and stderr go to one log in the order of its writes; it has no
	// deadline but c's own. c.Key makes it idempotent: while the job is
	// remembered its record is returned and nothing runs again. ctx bounds the
	// call, not the job.
	StartJob(ctx context.Context, c *spec.Command, o spec.JobOptions) (spec.Job, error)
	// Jobs lists the jobs that q selects, the oldest first, the ended ones too.
	Jobs(ctx context.Context, q spec.JobQuery) ([]spec.Job, error)
	// WaitJob returns the record of a job once it has ended and its log is
	// complete. ctx bounds the waiting only.
	WaitJob(ctx context.Context, owner, id string) (spec.Job, error)
	// KillJob ends a job's whole tree with TERM and, after grace (0:
	// spec.DefaultGrace; negative: at once; more than spec.MaxTimeout is
	// CodeInvalid), with KILL. It returns when the tree
	// is gone and the log complete. One that has ended is no error.
	KillJob(ctx context.Context, owner, id string, grace time.Duration) (spec.Job, error)
	// OpenLog reads a window of a job's log, in time and memory that depend on
	// the window and not on the log. ctx bounds the life of the Log.
	OpenLog(ctx context.Context, owner, id string, w spec.LogWindow) (Log, error)
	// HandOver gives the running jobs of one owner to another: all, or those
	// with ids. Their later events go to the new owner, and so do stalls and
	// ends that the old one has not been told of. A wait, kill or Log under way
	// goes on. A job's key goes with it: the old owner's next use of the key
	// starts another job. Where the new owner has a job under the same key that
	// one keeps it. It returns what it moved; what has ended stays. An id that is unknown
	// is CodeNotFound and moves nothing. from may equal to: nothing moves.
	HandOver(ctx context.Context, from, to string, ids []string) ([]spec.Job, error)
	// JobEvents calls tell, never concurrently, with each event of the owner's
	// jobs, those first that happened while nobody listened. An event is told
	// once: it is forgotten when tell has returned nil, and told again to the
	// next listener if it has not. A second listener for the same owner takes
	// over, and the first one ends with CodeStaleOwner; if tell of the first takes
	// more than 5 s to return from then on, the second is told of that event too.
	// What nobody is told of is kept with its job, which goes after those whose
	// end has been told: see spec.Job for how many there can be. It returns tell's error,
	// the context's, or how the place was lost; it goes on over a redial.
	JobEvents(ctx context.Context, owner string, tell func(spec.JobEvent) error) error
}

// Log is an open window of a log. Read returns io.EOF after the window's last
// byte. It is not safe for concurrent use, but for Close.
type Log interface {
	io.ReadCloser
	// Info says what the window shows.
	Info() spec.LogInfo
}
