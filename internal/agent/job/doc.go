// Package job keeps the jobs of a place: their records, logs and events, in a directory
// that outlives the guest.
//
// It starts and ends no process: whoever runs a command claims a Job for it (Claim),
// says when it runs and how it ended, and gives it a way to be ended. In between the Job
// takes its output and watches over its silence.
//
// A record is a small file that is replaced atomically whenever something of it changes
// that must outlive the guest. What was running when a guest died is found as lost by
// the next one. All files are read back as what they are, something that a command may
// have written: a record that contradicts itself does not exist.
//
// What an owner is to be told of is part of the job's record until the owner has said
// that it was: it goes with the job to another owner and waits for a listener that comes
// later, after a restart too.
package job
