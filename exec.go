package berth

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// DefaultMaxOutputBytes is what Exec keeps of each stream: 1 MiB.
const DefaultMaxOutputBytes = 1 << 20

// ExecOptions modify Exec. The zero value runs the command in the workdir with the
// place's environment, an empty stdin and no timeout.
type ExecOptions struct {
	Dir      string            // relative to the workdir; "": the workdir
	Env      map[string]string // added to the place's; under CleanEnv the whole of it
	CleanEnv bool
	// EnvPaths are put in front of lists of directories; see Command.EnvPaths.
	EnvPaths map[string][]string
	Stdin    io.Reader // nil: empty
	// Timeout ends the command's whole tree; 0: none. Grace is the time between
	// TERM and KILL then; 0: 5 s, negative: KILL at once.
	Timeout, Grace time.Duration
	// NoOutputTimeout ends the tree once the command has written nothing to
	// either stream for so long; 0: never. See Command.NoOutputTimeout.
	NoOutputTimeout time.Duration
	// MaxOutputBytes is the most that is kept of each stream; 0:
	// DefaultMaxOutputBytes. What is over it is read, counted and dropped.
	MaxOutputBytes int64
	// MergeOutput gives the command one pipe for both streams: Result.Stdout
	// has all of its output, in the order of its writes.
	MergeOutput bool
	// OnOutput, if set, is called with the output as it comes, never
	// concurrently: all of it, whatever MaxOutputBytes is, in pieces that may
	// end anywhere. p is valid during the call only. A call that takes its time
	// slows the command. When Exec has returned a result none follows.
	OnOutput func(stream OutputStream, p []byte)
	// KeepOutput keeps all output inside the place, to be read as the log of
	// the job Result.LogID; see Command.KeepOutput.
	KeepOutput bool

	// User, Umask and Rlimits are as in Command: whom it runs as ("": as the
	// place does), its file mode creation mask (nil: the place's) and limits.
	User    string
	Umask   *fs.FileMode
	Rlimits map[string]uint64

	// Key makes a repeated Exec idempotent; see Command.Key.
	Key string
}

// OutputStream is one of a command's two output streams.
type OutputStream int

// The output streams, by their descriptors.
const (
	Stdout OutputStream = 1
	Stderr OutputStream = 2
)

// String is "stdout" or "stderr".
func (s OutputStream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Result is what became of a command, and what it wrote.
type Result struct {
	// Stdout and Stderr are byte-exact. Of a stream longer than the cap the
	// first half of the cap and the last half are kept, the first being the
	// longer one by a byte if the cap is odd, and StdoutOmitted or
	// StderrOmitted counts the bytes between them that were dropped.
	Stdout, Stderr               []byte
	StdoutOmitted, StderrOmitted int64
	// Truncated: something was omitted from either stream. Of a command that was found
	// by its Key that may be what followed the part which the place has kept; it is
	// counted as omitted too.
	Truncated bool

	ExitCode int  // 128+n after a death by signal n; -1 if it is not known
	Signal   int  // the signal that ended the leader, else 0
	TimedOut bool // authoritative: no exit status means it
	NoOutput bool // it timed out for its silence; TimedOut is set too
	// OOM is set where the kernel killed part of it for want of memory,
	// HostExecutable where it made what programs outside run or obey, and Hint says
	// what the wall may have refused it; see Exit.
	OOM            *spec.OOM
	HostExecutable []string
	Hint           string
	// Kill says what is known of the tree after it was ended, and Survivors
	// what was still seen of it; see Exit.
	Kill      spec.KillOutcome
	Survivors []spec.Survivor
	Duration  time.Duration // by the place's clock
	// UserTime, SystemTime and MaxRSSBytes are what it used; see Exit.
	UserTime, SystemTime time.Duration
	MaxRSSBytes          int64
	// LogID is the job under which its output is kept; "" without KeepOutput.
	LogID string
}

// Success reports a command that ended by itself, in time, with status 0.
func (r *Result) Success() bool { return r.ExitCode == 0 && r.Signal == 0 && !r.TimedOut }

// Exec runs a command to its end and returns what became of it. Whatever the
// command did - a status, a timeout, a death by signal - is a Result; an error is
// for a place that failed or a request that was wrong. The end of ctx ends the
// command's whole tree and is an error, never a timeout. An error of o.Stdin is
// returned as it is, together with the Result.
func (sb *Sandbox) Exec(ctx context.Context, argv []string, o ExecOptions) (*Result, error) {
	if o.MaxOutputBytes < 0 {
		return nil, sb.wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("an output cap of %d bytes", o.MaxOutputBytes)), "exec", "")
	}
	if o.MaxOutputBytes == 0 {
		o.MaxOutputBytes = DefaultMaxOutputBytes
	}
	c := &Command{
		Key: o.Key, Args: argv, Dir: o.Dir, Env: o.Env, CleanEnv: o.CleanEnv, EnvPaths: o.EnvPaths, Timeout: o.Timeout, Grace: o.Grace,
		NoOutputTimeout: o.NoOutputTimeout, MergeOutput: o.MergeOutput, KeepOutput: o.KeepOutput,
		User: o.User, Umask: o.Umask, Rlimits: o.Rlimits,
	}
	stdout, stderr := newHeadTail(o.MaxOutputBytes), newHeadTail(o.MaxOutputBytes)
	stdio := Stdio{Stdin: o.Stdin, Stdout: stdout, Stderr: stderr}
	if o.OnOutput != nil {
		var turn sync.Mutex
		stdio.Stdout = &listened{stdout, Stdout, o.OnOutput, &turn}
		stdio.Stderr = &listened{stderr, Stderr, o.OnOutput, &turn}
	}
	p, err := sb.start(ctx, "exec", c, stdio)
	if err != nil {
		return nil, err
	}
	exit, own, err := p.wait(ctx)
	if err != nil {
		return nil, sb.wrap(err, "exec", "")
	}
	r := &Result{
		Stdout: stdout.Bytes(), Stderr: stderr.Bytes(),
		ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, NoOutput: exit.NoOutput, OOM: exit.OOM, HostExecutable: exit.HostExecutable, Hint: exit.Hint,
		Kill: exit.Kill, Survivors: exit.Survivors, Duration: exit.Duration,
		UserTime: exit.UserTime, SystemTime: exit.SystemTime, MaxRSSBytes: exit.MaxRSSBytes, LogID: exit.LogID,
	}
	r.StdoutOmitted = stdout.Omitted() + missing(exit.StdoutBytes, stdout.total)
	r.StderrOmitted = stderr.Omitted() + missing(exit.StderrBytes, stderr.total)
	r.Truncated = r.StdoutOmitted > 0 || r.StderrOmitted > 0
	return r, own
}

// missing is how many bytes of a stream the place has not kept for one who repeats a key.
func missing(wrote, came int64) int64 { return max(wrote-came, 0) }

// listened is one stream of a command that somebody listens to.
type listened struct {
	kept   *headTail
	stream OutputStream
	tell   func(OutputStream, []byte)
	turn   *sync.Mutex // of both streams
}

// Write implements io.Writer.
func (l *listened) Write(p []byte) (int, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	n, err := l.kept.Write(p)
	l.tell(l.stream, p)
	return n, err
}
