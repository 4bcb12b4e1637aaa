package spec

import "time"

// AuditKind says what was done to a place.
type AuditKind string

// The kinds of what is audited.
const (
	AuditCommand      AuditKind = "command"
	AuditJob          AuditKind = "job" // its start; it ends in the place
	AuditJobKill      AuditKind = "job_kill"
	AuditHandOver     AuditKind = "job_hand_over"
	AuditTerminate    AuditKind = "terminate"
	AuditTerminal     AuditKind = "terminal"
	AuditTerminalKill AuditKind = "terminal_kill"
	AuditTree         AuditKind = "tree_import"
	AuditDial         AuditKind = "dial"
	AuditListen       AuditKind = "listen"
	AuditWrite        AuditKind = "file_write"
	AuditBatch        AuditKind = "file_batch"
	AuditMkdir        AuditKind = "file_mkdir"
	AuditChmod        AuditKind = "file_chmod"
	AuditCopy         AuditKind = "file_copy"
	AuditMove         AuditKind = "file_move"
	AuditRemove       AuditKind = "file_remove"
	AuditSuspend      AuditKind = "suspend"
	AuditResume       AuditKind = "resume"
	AuditSnapshot     AuditKind = "snapshot" // Name: its id
	AuditClose        AuditKind = "close"
	AuditDestroy      AuditKind = "destroy"
)

// AuditRecord is one thing that a client does to a place, as that client tells it: a first
// record before it is asked for, which has what is asked, and one with Ended, which has
// what became of it. Fields that do not belong to its kind are empty. No record holds the
// value of an environment variable, input, output or content.
type AuditRecord struct {
	Time  time.Time
	Kind  AuditKind
	Ended bool
	// Action is a random name that joins the two records; Client one of the Sandbox.
	Action, Client string

	// Backend, Sandbox and Key are the place's: its driver's name, its id and its key.
	Backend, Sandbox string
	Key              Key

	// ID is the command's, job's or terminal's, where it is known. Name is the key that it was
	// started with, or a snapshot's id, Owner a job's.
	ID, Name, Owner string
	Args            []string
	Dir             string
	// Env are the names of what is added to the environment, in order.
	Env  []string
	User string

	// Path is the file's or the address, NewPath the one that it is moved or copied to;
	// Count is of the files of a batch that have landed.
	Path, NewPath string
	Count         int64

	Exit *Exit
	Kill KillOutcome // of a Terminate
	// Err is why it failed; nil: it did not.
	Err error
	// Took is the time between the two records.
	Took time.Duration
}
