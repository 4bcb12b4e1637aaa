package wire

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Bytes is a string of bytes that survives JSON: it travels as base64.
type Bytes = []byte

// Op names what a request asks for.
type Op string

// The operations on a place and its commands; those on files are in files.go.
// OpExec, OpAttach and OpData belong to commands; each of the others is one request
// and one reply, with data frames where stated.
const (
	OpPing     Op = "ping"
	OpStatus   Op = "status"
	OpShutdown Op = "shutdown" // ends the place: TERM, grace, KILL, then the guest
	OpBye      Op = "bye"      // this client leaves on purpose: its commands without a key end

	OpExec   Op = "exec"   // control stream of a new command (or of a known key)
	OpAttach Op = "attach" // control stream of a command that is known
	OpData   Op = "data"   // one standard stream of a command

	OpTerminate Op = "terminate" // 1.2: ends the command of a key, whoever started it
	OpRunning   Op = "running"   // 1.2: lists the commands that run
)

// Looks reports whether an op asks how things are, or waits to be told, and does nothing
// in the place: a client that does no more does not use it.
func (o Op) Looks() bool {
	switch o {
	case OpPing, OpStatus, OpBye, OpRunning, OpPorts, OpJobList, OpTerminalList, OpEvents, OpJobEvents, OpWatch:
		return true
	}
	return false
}

// Request is the first frame of every stream. Exactly the part that belongs to
// Op is set.
type Request struct {
	Op       Op               `json:"op"`
	Exec     *ExecRequest     `json:"exec,omitempty"`
	Attach   *AttachRequest   `json:"attach,omitempty"`
	Data     *DataRequest     `json:"data,omitempty"`
	File     *FileRequest     `json:"file,omitempty"`
	Glob     *GlobRequest     `json:"glob,omitempty"`
	Grep     *GrepRequest     `json:"grep,omitempty"`
	Batch    *BatchRequest    `json:"batch,omitempty"`
	Job      *JobRequest      `json:"job,omitempty"`
	Shutdown *ShutdownRequest `json:"shutdown,omitempty"`

	Terminate *TerminateRequest `json:"terminate,omitempty"`
	Events    *EventsRequest    `json:"events,omitempty"`
	Terminal  *TerminalRequest  `json:"terminal,omitempty"`
	Watch     *WatchRequest     `json:"watch,omitempty"`
	Port      *PortRequest      `json:"port,omitempty"`
	Tree      *TreeRequest      `json:"tree,omitempty"`
}

// ExecRequest starts a command. The host opens a data stream for each of
// Stdin, Stdout and Stderr that is true, right after this request.
type ExecRequest struct {
	// ID is chosen by the host, 128 random bits, and names the command on any
	// later connection.
	ID        string           `json:"id"`
	Key       string           `json:"key,omitempty"`
	Args      []Bytes          `json:"args"`
	Dir       Bytes            `json:"dir,omitempty"`
	Env       map[string]Bytes `json:"env,omitempty"`
	CleanEnv  bool             `json:"clean_env,omitempty"`
	TimeoutMS int64            `json:"timeout_ms,omitempty"`
	GraceMS   int64            `json:"grace_ms"`
	Merge     bool             `json:"merge,omitempty"`
	Stdin     bool             `json:"stdin,omitempty"`
	Stdout    bool             `json:"stdout,omitempty"`
	Stderr    bool             `json:"stderr,omitempty"`

	// Since 1.1; an older guest ignores them, so they are not sent to one.
	NoOutputMS int64             `json:"no_output_ms,omitempty"`
	User       string            `json:"user,omitempty"`
	Umask      *uint32           `json:"umask,omitempty"`
	Rlimits    map[string]uint64 `json:"rlimits,omitempty"`
	Keep       bool              `json:"keep,omitempty"`

	// Since 1.3: the command runs on a terminal of this size.
	Terminal *spec.TerminalSize `json:"terminal,omitempty"`

	// Since 1.4; not sent to an older guest.
	EnvPaths map[string][]Bytes `json:"env_paths,omitempty"`
}

// AttachRequest takes a known command up again on a new connection. The answer
// is the same as to an ExecRequest. An unknown id is not_found.
type AttachRequest struct {
	ID string `json:"id"`
}

// DataRequest binds a stream to FD 0, 1 or 2 of a command. For 1 and 2 the guest
// sends data from Offset on, then an end. For 0 the guest answers with a Reply
// whose Offset says how much it has, and the host sends data from there, then an
// end; the guest sends a second Reply when the command takes no more input.
type DataRequest struct {
	ID     string `json:"id"`
	FD     int    `json:"fd"`
	Offset int64  `json:"offset,omitempty"`
}

// Control is what the host sends on a command's control stream.
type Control struct {
	// Signal goes to the command's process group; 0 asks for none.
	Signal int `json:"signal,omitempty"`
	// Kill ends the tree with KILL; Cancel ends it with TERM, grace, KILL.
	Kill   bool `json:"kill,omitempty"`
	Cancel bool `json:"cancel,omitempty"`
	// Done says that the exit has been received: the guest may forget a command
	// without a key.
	Done bool `json:"done,omitempty"`
	// Seq numbers what wants an acknowledgement; the guest answers with an
	// Event that has the same Ack.
	Seq uint64 `json:"seq,omitempty"`
}

// Event is what the guest sends on a command's control stream.
type Event struct {
	Started *Started `json:"started,omitempty"` // first, and again after an attach
	// Ended comes before Exit where the output keeps that waiting. Since 1.5; not sent to
	// an older host.
	Ended *Ended `json:"ended,omitempty"`
	Exit  *Exit  `json:"exit,omitempty"` // last: after the end of its data
	Err   *Error `json:"err,omitempty"`  // instead of Started, or of Exit
	Ack   uint64 `json:"ack,omitempty"`
}

// Started says that the command runs, or has run.
type Started struct {
	ID  string `json:"id"` // the first one's, where a key was repeated
	PID int    `json:"pid"`
}

// Ended says that the command's leader has ended, while there is output that waits for the
// host to take it.
type Ended struct {
	TimedOut bool `json:"timed_out,omitempty"`
}

// Exit is spec.Exit on the wire.
type Exit struct {
	Code        int             `json:"code"`
	Signal      int             `json:"signal,omitempty"`
	TimedOut    bool            `json:"timed_out,omitempty"`
	NoOutput    bool            `json:"no_output,omitempty"`
	OOM         *spec.OOM       `json:"out_of_memory,omitempty"`
	Kill        string          `json:"kill,omitempty"`
	Survivors   []spec.Survivor `json:"survivors,omitempty"`
	StdoutBytes int64           `json:"stdout_bytes"`
	StderrBytes int64           `json:"stderr_bytes"`
	DurationNS  int64           `json:"duration_ns"`
	UserNS      int64           `json:"user_ns"`
	SystemNS    int64           `json:"system_ns"`
	MaxRSSBytes int64           `json:"max_rss_bytes"`
	LogID       string          `json:"log_id,omitempty"`
	// HostExecutable are the paths of spec.Exit; Denied says that the end of what the
	// command printed reads as if the wall had refused something.
	HostExecutable []Bytes `json:"host_executable,omitempty"`
	Denied         bool    `json:"denied,omitempty"`
}

const (
	maxSurvivors      = 64
	maxHostExecutable = 64
)

// Spec checks and converts what a guest said; it refuses what no kernel says.
func (e *Exit) Spec() (spec.Exit, error) {
	if e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 64 || e.Signal > 0 && e.Code != 128+e.Signal ||
		e.StdoutBytes < 0 || e.StderrBytes < 0 || len(e.Survivors) > maxSurvivors || len(e.HostExecutable) > maxHostExecutable ||
		min(e.DurationNS, e.UserNS, e.SystemNS, e.MaxRSSBytes) < 0 || e.NoOutput && !e.TimedOut || !jobIDOrNone(e.LogID) {
		return spec.Exit{}, violation("exit record out of range")
	}
	kill := spec.KillOutcome(e.Kill)
	switch kill {
	case spec.KillNone, spec.KillTerminated, spec.KillExited, spec.KillUnknown:
	default:
		kill = spec.KillUnknown
	}
	oom, err := checkOOM(e.OOM)
	if err != nil {
		return spec.Exit{}, err
	}
	var made []string
	for _, path := range e.HostExecutable {
		if len(path) == 0 || len(path) > maxPathBytes || path[0] != '/' {
			return spec.Exit{}, violation("exit record out of range")
		}
		made = append(made, string(path))
	}
	return spec.Exit{
		Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, NoOutput: e.NoOutput, OOM: oom, Kill: kill, Survivors: e.Survivors, HostExecutable: made,
		StdoutBytes: e.StdoutBytes, StderrBytes: e.StderrBytes,
		Duration: time.Duration(e.DurationNS), UserTime: time.Duration(e.UserNS), SystemTime: time.Duration(e.SystemNS),
		MaxRSSBytes: e.MaxRSSBytes, LogID: e.LogID,
	}, nil
}

// maxPathBytes bounds a path that a guest tells of.
const maxPathBytes = 4096

// checkOOM refuses what no kernel says, and cuts the hint.
func checkOOM(o *spec.OOM) (*spec.OOM, error) {
	if o == nil {
		return nil, nil
	}
	if o.LimitBytes < 0 || o.PeakBytes < 0 {
		return nil, violation("out-of-memory record out of range")
	}
	checked := *o
	checked.Hint = clip(checked.Hint)
	return &checked, nil
}

// ShutdownRequest ends the place.
type ShutdownRequest struct {
	GraceMS int64 `json:"grace_ms"`
}

// Reply answers a request. Err is set, or the part that belongs to the op.
type Reply struct {
	Err     *Error     `json:"err,omitempty"`
	Info    *FileInfo  `json:"info,omitempty"`
	Entries []FileInfo `json:"entries,omitempty"`
	Done    bool       `json:"done,omitempty"`
	Offset  int64      `json:"offset,omitempty"`
	Status  *Status    `json:"status,omitempty"`
	Landed  int        `json:"landed,omitempty"` // of a batch, beside Err too
	Name    Bytes      `json:"name,omitempty"`
	Job     *Job       `json:"job,omitempty"`
	Jobs    []Job      `json:"jobs,omitempty"`
	Log     *LogInfo   `json:"log,omitempty"`
	Kill    string     `json:"kill,omitempty"`    // of a terminate: a spec.KillOutcome
	Running []Running  `json:"running,omitempty"` // of a running; more follows unless Done

	Events   *EventsInfo `json:"events,omitempty"`
	Terminal *Terminal   `json:"terminal,omitempty"`
	Conn     *Conn       `json:"conn,omitempty"`
	Ports    []Port      `json:"ports,omitempty"` // more follow unless Done
	Tree     *TreeStats  `json:"tree,omitempty"`  // of an import, beside Err too
}

// maxReplyBytes bounds a reply; ListBatch entries of 255-byte names fit.
const maxReplyBytes = 512 << 10

// ReadReply reads one reply and returns its error as a *spec.Error.
func ReadReply(r interface{ Read([]byte) (int, error) }) (*Reply, error) {
	var reply Reply
	if err := ReadMessage(r, &reply, maxReplyBytes); err != nil {
		return nil, err
	}
	if reply.Err != nil {
		return nil, reply.Err.Spec()
	}
	if len(reply.Entries) > ListBatch || len(reply.Jobs) > JobBatch || len(reply.Running) > RunningBatch || len(reply.Ports) > PortBatch {
		return nil, violation("%d entries and %d jobs in one reply", len(reply.Entries), len(reply.Jobs))
	}
	return &reply, nil
}

// Status is what OpStatus answers.
type Status struct {
	StartedUnixNS int64  `json:"started_unix_ns"`
	UptimeNS      int64  `json:"uptime_ns"`
	Clients       int    `json:"clients"`
	Commands      int    `json:"commands"`
	IdleInNS      int64  `json:"idle_in_ns"`
	ExpiresInNS   int64  `json:"expires_in_ns"`
	Version       string `json:"version"`
	Notice        string `json:"notice,omitempty"`

	// Since 1.2: of the memory group that the place has to itself; else 0.
	MemoryBytes     int64 `json:"memory_bytes,omitempty"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes,omitempty"`
	OOMKills        int64 `json:"oom_kills,omitempty"`

	// Since 1.4: how long nothing but what Looks has been asked for, and no command has
	// run; 0 while something goes on.
	UnusedNS int64 `json:"unused_ns,omitempty"`
}

// Error is a *spec.Error on the wire.
type Error struct {
	Code  string `json:"code"`
	Text  string `json:"text,omitempty"`
	Path  Bytes  `json:"path,omitempty"`
	Errno int    `json:"errno,omitempty"` // a Linux errno: 2 is fs.ErrNotExist, 13 fs.ErrPermission
	Hint  string `json:"hint,omitempty"`
}

// FromError converts for sending. A plain error travels as CodeInternal.
func FromError(err error) *Error {
	if err == nil {
		return nil
	}
	out := &Error{Code: string(spec.CodeInternal), Text: clip(err.Error())}
	var e *spec.Error
	if errors.As(err, &e) {
		out.Code, out.Path, out.Hint, out.Text = string(e.Code), Bytes(e.Path), clip(e.Hint), ""
		if e.Err != nil {
			out.Text = clip(e.Err.Error())
		}
	}
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		out.Errno = int(errno)
	case errors.Is(err, fs.ErrNotExist) && out.Code == string(spec.CodeStartFailed):
		out.Errno = int(syscall.ENOENT)
	}
	return out
}

// Spec converts what a guest said: an unknown code is CodeInternal, texts are cut.
func (e *Error) Spec() *spec.Error {
	code := spec.Code(e.Code)
	if !code.Known() {
		code = spec.CodeInternal
	}
	out := &spec.Error{Code: code, Path: clip(string(e.Path)), Hint: clip(e.Hint)}
	if e.Text != "" || e.Errno != 0 {
		out.Err = &remoteError{text: clip(e.Text), errno: e.Errno}
	}
	return out
}

// remoteError is a cause that happened inside the place. It answers errors.Is for
// the causes that callers ask about; its errno is Linux's, whatever the host.
type remoteError struct {
	text  string
	errno int
}

func (r *remoteError) Error() string { return r.text }

func (r *remoteError) Is(target error) bool {
	const enoent, eacces, eperm, econnreset, econnrefused = 2, 13, 1, 104, 111
	switch target {
	case fs.ErrNotExist:
		return r.errno == enoent
	case fs.ErrPermission:
		return r.errno == eacces || r.errno == eperm
	case syscall.ECONNREFUSED:
		return r.errno == econnrefused
	case syscall.ECONNRESET:
		return r.errno == econnreset
	}
	return false
}

// clip bounds a text. What it cuts off is not kept in memory.
func clip(s string) string {
	const most = 4096
	if len(s) > most {
		return strings.Clone(s[:most])
	}
	return s
}
