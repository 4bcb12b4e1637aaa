package spec

import "time"

// EventKind says what happened to a place.
type EventKind string

// The kinds of events.
const (
	EventStarted       EventKind = "started" // the guest, again after it had died too
	EventClient        EventKind = "client"  // a client came or, with Ended, left or lost its connection
	EventCommandBegun  EventKind = "command_begun"
	EventCommandEnded  EventKind = "command_ended"
	EventJobBegun      EventKind = "job_begun"
	EventJobEnded      EventKind = "job_ended"
	EventJobStalled    EventKind = "job_stalled"
	EventTerminalBegun EventKind = "terminal_begun"
	EventTerminalEnded EventKind = "terminal_ended"
	EventFileWritten   EventKind = "file_written" // through the file API: written, copied, made or its mode changed
	EventFileRemoved   EventKind = "file_removed"
	EventFileMoved     EventKind = "file_moved"
	EventTreeImported  EventKind = "tree_imported"
	EventWatchBegun    EventKind = "watch_begun"
	EventWatchOverflow EventKind = "watch_overflow"
	EventDialled       EventKind = "dialled"  // a connection into the place
	EventListened      EventKind = "listened" // something from outside is offered inside or, with Ended, no longer
	EventOOM           EventKind = "oom"      // beside the end of what was killed
	EventKilled        EventKind = "killed"   // a tree was ended because somebody asked, or by its timeout
	// EventHostExecutable tells, when the place ends, of a path of Exit.HostExecutable's kind
	// that was made after the last command which could have told of it.
	EventHostExecutable EventKind = "host_executable"
	EventClosing        EventKind = "closing" // the place ends; the last event
	EventMissed         EventKind = "missed"  // events were not kept; Count says how many
)

// Event is one thing that happened to a place, as its guest tells it. Fields that do not
// belong to its kind are empty. No event holds an environment, input, output or content:
// what is secret in it stands in Args, which are kept as they are.
type Event struct {
	// Seq numbers the events of one life of the guest from 1; a later life begins again,
	// with EventStarted.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"` // by the place's clock
	Kind EventKind `json:"kind"`
	// Client is a random name of the session that caused it, the same in all its events.
	Client string `json:"client,omitempty"`
	// ID is the command's, job's or terminal's; Key the command's or job's.
	ID    string `json:"id,omitempty"`
	Key   string `json:"key,omitempty"`
	Owner string `json:"owner,omitempty"` // of a job
	// Args is argv where something begins, of a long one the first 4 KiB.
	Args []string `json:"args,omitempty"`
	PID  int      `json:"pid,omitempty"`
	Exit *Exit    `json:"exit,omitempty"`
	// Path is the file's, by the name that was given, OldPath its earlier one; Address is what was dialled or is
	// listened on, network first: "tcp 127.0.0.1:80".
	Path    string `json:"path,omitempty"`
	OldPath string `json:"old_path,omitempty"`
	Address string `json:"address,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	// Count is of missed events, whose last has this Seq, of imported files, or of the
	// files of a batch that come after its first 1,000 and have no event each.
	Count int64 `json:"count,omitempty"`
	// Reason is why a tree is ended: "timeout", "no_output", "terminate" (by its key),
	// "kill", "cancel", "abandoned" (its client has left) or "closing".
	Reason string `json:"reason,omitempty"`
}

// EventQuery selects events.
type EventQuery struct {
	// After is the last Seq that is known already; 0: none. Older events are told as far
	// as they are kept: the last 4,096, or what 4 MiB hold of them. A number that none of
	// them has yet, as after the guest was started again, counts as 0.
	After int64
	// Follow goes on with what happens until the place ends.
	Follow bool
}
