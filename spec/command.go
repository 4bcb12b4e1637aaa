package spec

import (
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command says what is to run in a place. Only Args is required.
type Command struct {
	// Key makes a repeated Start idempotent: while the place remembers the key,
	// the process that runs or ran under it is returned and nothing runs again.
	// Of its output the first 1 MiB of each stream is kept for that, or nothing of
	// the oldest of many; one who comes while the command runs gets the rest too if
	// no more than that has been missed. Exit.StdoutBytes and StderrBytes tell how
	// much there was. Empty: every Start runs.
	Key string
	// Args is the program and its arguments. A program without a slash is
	// looked up on the PATH of the command's own environment; under CleanEnv
	// without PATH, on the place's.
	Args []string
	// Dir is the working directory, relative to the place's workdir. Empty: the
	// workdir. A directory that is missing, is none, or lies under /proc is
	// refused with ErrInvalidPath before anything runs.
	Dir string
	// Env is added to the place's environment; under CleanEnv it is the whole
	// of it.
	Env      map[string]string
	CleanEnv bool
	// EnvPaths are directories of the place, absolute and without a colon, that are put in
	// front of a variable that holds a list of them, PATH or PYTHONPATH, say: in front of
	// Env's value, else of the place's, or alone where there is neither.
	EnvPaths map[string][]string
	// Timeout ends the command's whole tree. 0: none.
	Timeout time.Duration
	// Grace is the time between TERM and KILL when the tree is ended by a
	// timeout or a cancel. 0: DefaultGrace; negative: KILL at once.
	Grace time.Duration
	// NoOutputTimeout ends the command's whole tree once it has written nothing
	// to either stream for so long. 0: none. Output counts whether or not
	// anybody takes it; a reader that holds the command up counts as output.
	NoOutputTimeout time.Duration
	// MergeOutput gives the command one pipe for stdout and stderr, in the
	// order of its writes; Stdio.Stderr is not used then.
	MergeOutput bool
	// KeepOutput keeps all output in the place too, both streams in one log in
	// the order in which their pieces arrived, up to DefaultMaxLogBytes. When the
	// command has ended its record is among the jobs of the owner "" under Exit.LogID;
	// nobody is told of its end. A stream that nobody takes is kept and counted
	// like one that somebody does. Needs Caps.Jobs.
	KeepOutput bool

	// User runs the command as another user of the place: "uid", "uid:gid", or
	// a name that the place's /etc/passwd has ("name", "name:group"). Empty:
	// as the place's. Without a group it is the user's own in /etc/passwd, and
	// else the one with the same number; supplementary groups are those that
	// /etc/group gives to a name, and none for a number. The environment does
	// not change. Needs Caps.CommandUser.
	User string
	// Umask is the command's file mode creation mask, 0 to 0777. nil: the
	// place's.
	Umask *fs.FileMode
	// Rlimits are set, soft and hard, before the program begins. Keys are
	// RlimitNames; values as setrlimit(2) has them, RlimitInfinity for none.
	// A limit above the place's hard one is refused with CodePermission. The soft limit
	// "locks", which no kernel enforces, may be a number that a place tells the
	// processes of its commands apart by.
	Rlimits map[string]uint64
}

// RlimitInfinity is the value of a limit that limits nothing.
const RlimitInfinity = ^uint64(0)

// RlimitNames are the keys of Command.Rlimits, in the order of their numbers on
// Linux: the index is the number.
var RlimitNames = [...]string{"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime"}

// DefaultGrace is the time between TERM and KILL.
const DefaultGrace = 5 * time.Second

// Clone returns a deep copy; inputs are copied before the first thing that may
// wait, so a caller's later change never changes what runs.
func (c *Command) Clone() *Command {
	d := *c
	d.Args = slices.Clone(c.Args)
	d.Env = cloneMap(c.Env)
	d.EnvPaths = cloneLists(c.EnvPaths)
	d.Rlimits = maps.Clone(c.Rlimits)
	if c.Umask != nil {
		mask := *c.Umask
		d.Umask = &mask
	}
	return &d
}

// WithEnvPaths returns the command with its EnvPaths in its Env, in a place whose
// environment is env, entries "NAME=value". It is c itself if it has none.
func (c *Command) WithEnvPaths(env []string) *Command {
	if len(c.EnvPaths) == 0 {
		return c
	}
	d := *c
	d.Env, d.EnvPaths = maps.Clone(c.Env), nil
	if d.Env == nil {
		d.Env = make(map[string]string, len(c.EnvPaths))
	}
	for name, dirs := range c.EnvPaths {
		value, own := c.Env[name]
		for _, entry := range env {
			if of, v, _ := strings.Cut(entry, "="); of == name && !own && !c.CleanEnv {
				value = v
			}
		}
		list := strings.Join(dirs, ":")
		if value != "" && list != "" {
			list += ":"
		}
		d.Env[name] = list + value
	}
	return &d
}

func cloneLists(m map[string][]string) map[string][]string {
	out := maps.Clone(m)
	for name, list := range out {
		out[name] = slices.Clone(list)
	}
	return out
}

// GraceOrDefault returns the effective grace: never negative.
func (c *Command) GraceOrDefault() time.Duration {
	switch {
	case c.Grace < 0:
		return 0
	case c.Grace == 0:
		return DefaultGrace
	}
	return c.Grace
}

// Shell returns the argv that runs script with /bin/sh: not a login shell. BASH_ENV
// and ENV are removed from the environment of every command that Berth starts
// unless it sets them itself.
func Shell(script string) []string { return ShellWith("/bin/sh", script) }

// ShellWith is Shell with another shell that knows -c: a path, or a name on the
// PATH of the command's environment.
func ShellWith(shell, script string) []string { return []string{shell, "-c", script} }

// Exit is what became of a command that started. It is a result, whatever the
// command did; errors are for a place that failed its caller.
type Exit struct {
	// Code is the exit status of the leader: 128+n after a death by signal n,
	// -1 where it is not known (TimedOut, and the guest no longer answered).
	Code int
	// Signal is the number of the signal that ended the leader, else 0.
	Signal int
	// TimedOut is authoritative: the command was still running at a deadline.
	// A command that exits 124 or 137 by itself did not time out.
	TimedOut bool
	// NoOutput says that the deadline was that of NoOutputTimeout; TimedOut is
	// set too.
	NoOutput bool
	// OOM is set where memory ran out while the command ran, and the kernel killed a
	// process of the place for it. A kill is told once: to the command that ended by
	// SIGKILL first after it, else to the one that ended first.
	OOM *OOM
	// Kill says what is known about the tree after a timeout or a kill: "" when
	// nothing was killed.
	Kill KillOutcome
	// Survivors are processes that were still seen after a best effort kill, and are
	// or may be the command's. At most 64.
	Survivors []Survivor
	// StdoutBytes and StderrBytes count what the command wrote up to its end,
	// whether or not it was kept; 0 for a stream that nobody asked for, which
	// is discarded inside the place.
	StdoutBytes, StderrBytes int64
	// Duration is from start to the leader's end by the place's clock.
	Duration time.Duration
	// UserTime and SystemTime are what all processes of the command have spent
	// up to its end where a tree kill is confirmed, else the leader's and its
	// waited-for children's.
	UserTime, SystemTime time.Duration
	// MaxRSSBytes is the most memory that one of them, the leader or a
	// waited-for child, held at a time. The kernel counts from the fork on, when
	// the child still is the guest: less than that (some 15 MiB) is not told
	// apart and reads as the guest's own.
	MaxRSSBytes int64
	// HostExecutable are files and directories that programs outside run or obey - the
	// hooks of a repository, the settings of editors, shells and agents -, that did not
	// exist when the place was started, and have been made since. Each is told once, by
	// the command that ended next. An index of git is one too that leads git outside of
	// the work tree or into a repository's own directory, or that cannot be read whole,
	// each time that it is written. At most 64, absolute paths. Only a place with a wall
	// looks for them.
	HostExecutable []string
	// Hint, or "", says for a person why a command that failed may have been refused
	// by the place's wall, where commands can write and which setting widens that.
	Hint string
	// LogID is the id of the job under which the output is found that was kept
	// for KeepOutput.
	LogID string
}

// Success reports a leader that ended by itself, in time, with status 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == 0 && !e.TimedOut }

// String says it in a few words: "exit status 3", "signal 9", "timed out".
func (e Exit) String() string {
	switch {
	case e.TimedOut:
		return "timed out"
	case e.Signal != 0:
		return "signal " + strconv.Itoa(e.Signal)
	default:
		return "exit status " + strconv.Itoa(e.Code)
	}
}

// KillOutcome says what is known after a tree was ended.
type KillOutcome string

// The outcomes of ending a tree.
const (
	KillNone       KillOutcome = ""               // nothing was killed
	KillTerminated KillOutcome = "terminated"     // no process of the tree is left
	KillExited     KillOutcome = "already_exited" // it had ended before
	KillUnknown    KillOutcome = "unknown"        // it was killed, and nothing proves that all of it is gone
)

// Survivor names a process that outlived a kill.
type Survivor struct {
	PID  int    `json:"pid"` // as seen inside the place
	Name string `json:"name"`
}

// Signal is a Linux signal number, 1 to 64.
type Signal int

// The signals that callers name.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGUSR1 Signal = 10
	SIGUSR2 Signal = 12
	SIGTERM Signal = 15
	SIGCONT Signal = 18
	SIGSTOP Signal = 19
)
