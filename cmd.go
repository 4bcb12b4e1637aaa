package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/spec"
)

// DefaultMaxCapture is what Output and CombinedOutput hold in memory: 64 MiB.
const DefaultMaxCapture = 64 << 20

// Cmd is a command being prepared or run. It mirrors os/exec.Cmd; where a place
// makes a difference, the field says so. A Cmd cannot be used a second time.
type Cmd struct {
	// Args is the program and its arguments. A program without a slash is
	// looked up inside the place, on the PATH of the command's environment.
	Args []string
	// Dir is the working directory, relative to the place's workdir; "": the
	// workdir.
	Dir string
	// Env has entries "NAME=value" that are added to the place's environment;
	// under CleanEnv they are the whole of it. A later entry wins over an
	// earlier one; an entry without "=" or with a bad name is refused by Start.
	Env      []string
	CleanEnv bool
	// EnvPaths are put in front of lists of directories; see Command.EnvPaths.
	EnvPaths map[string][]string

	// Stdin is copied to the command; nil: its input is empty. A Read that
	// blocks does not hold up Wait.
	Stdin io.Reader
	// Stdout and Stderr get the command's output; nil: discarded inside the
	// place. If they are equal with ==, the command has one pipe for both and
	// one goroutine writes, in the order of the command's writes.
	Stdout, Stderr io.Writer

	// Timeout ends the command's whole tree; 0: none. That is a result: Wait
	// returns an *ExitError with TimedOut set.
	Timeout time.Duration
	// NoOutputTimeout ends it once it has written nothing to either stream for
	// so long; 0: never. That is a result like Timeout's, with NoOutput set.
	NoOutputTimeout time.Duration
	// User, Umask and Rlimits are as in Command: whom it runs as ("": as the
	// place does), its file mode creation mask (nil: the place's) and limits.
	User    string
	Umask   *fs.FileMode
	Rlimits map[string]uint64
	// Key makes a repeated Start idempotent; see Command.Key.
	Key string

	// Cancel, if set, is called when the context ends, in place of ending the
	// command's tree; WaitDelay after it, the tree is ended with KILL. Wait then
	// returns the context's error. If Cancel returns os.ErrProcessDone there is no
	// KILL, and Wait returns the command's own result. In either case output that
	// nobody has taken 2 s later is given up, and the result with it. Without
	// Cancel the tree is sent TERM at once.
	Cancel func() error
	// WaitDelay is the time between the first signal of an ending - by the
	// context or by Timeout - and KILL. 0: 5 s; negative: KILL at once.
	WaitDelay time.Duration

	// MaxCapture is the most that Output and CombinedOutput hold in memory; 0:
	// DefaultMaxCapture. More output is read and dropped, and is ErrTooLarge. So is
	// output of which the place has not kept all for a Key that is repeated.
	MaxCapture int64

	// Exit is what became of the command: set once Wait has a result. Under a Key
	// that was repeated it may count more output than has come.
	Exit *Exit

	sb        *Sandbox
	ctx       context.Context // bounds the command's life, as in os/exec
	used      atomic.Bool
	waited    atomic.Bool
	process   atomic.Pointer[Process]
	stdin     *io.PipeReader // of StdinPipe
	pipes     []*pipe        // of StdoutPipe and StderrPipe
	canceled  chan struct{}  // closed once Cancel's work is over; nil without Cancel
	cancelErr error          // what Wait returns because of Cancel; set before canceled is closed
	done      chan struct{}  // closed once exit and err are set
	exit      Exit
	own       error // of the caller's reader and writers; there is an exit all the same
	err       error
}

// Command returns the Cmd to run the named program with the given arguments.
func (sb *Sandbox) Command(name string, args ...string) *Cmd {
	return sb.CommandContext(context.Background(), name, args...)
}

// CommandContext is like Command with a context: its end ends the command's whole
// tree, with TERM and, WaitDelay later, with KILL, unless Cancel is set.
func (sb *Sandbox) CommandContext(ctx context.Context, name string, args ...string) *Cmd {
	if ctx == nil {
		panic("nil Context")
	}
	return &Cmd{Args: append([]string{name}, args...), sb: sb, ctx: ctx}
}

// ExitError is a command that ran and did not succeed.
type ExitError struct {
	Exit
	// Stderr is the standard error output as Output collected it when it was
	// not otherwise taken: of a long one, the first and the last 32 KiB.
	Stderr []byte
}

// Error says how the command ended: "exit status 3", "signal 9", "timed out".
func (e *ExitError) Error() string { return e.Exit.String() }

func (c *Cmd) misuse(text string) error {
	return c.sb.wrap(spec.New(spec.CodeInvalid, text), "start", "")
}

// Run starts the command and waits for it. It returns nil if the command ended by
// itself, in time, with status 0; an *ExitError if it ended otherwise; another
// error if the place failed or the request was wrong. What Stdin, Stdout or Stderr
// failed with is returned, as it was, for a command that would be a nil otherwise.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Start starts the command and does not wait for it. After a nil answer Wait must
// be called.
func (c *Cmd) Start() error {
	if c.used.Swap(true) {
		return c.misuse("the command was already started")
	}
	err := c.start()
	if err != nil {
		c.closePipes(err)
	}
	return err
}

func (c *Cmd) start() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	env, err := parseEnv(c.Env)
	if err != nil {
		return c.sb.wrap(err, "start", "")
	}
	stdio := Stdio{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}
	command := &Command{
		Key: c.Key, Args: c.Args, Dir: c.Dir, Env: env, CleanEnv: c.CleanEnv, EnvPaths: c.EnvPaths,
		Timeout: c.Timeout, NoOutputTimeout: c.NoOutputTimeout, Grace: c.WaitDelay, MergeOutput: sameWriter(c.Stdout, c.Stderr),
		User: c.User, Umask: c.Umask, Rlimits: c.Rlimits,
	}
	if command.MergeOutput {
		stdio.Stderr = nil
	}
	life, endLife := c.ctx, context.CancelFunc(func() {})
	ownLife := func() bool { return true }
	if c.Cancel != nil {
		// The context bounds the start; the life that follows it is Cancel's.
		life, endLife = context.WithCancel(context.WithoutCancel(c.ctx))
		ownLife = context.AfterFunc(c.ctx, endLife)
	}
	p, err := c.sb.start(life, "start", command, stdio)
	if err != nil {
		endLife()
		if c.ctx.Err() != nil && life.Err() != nil {
			return c.ctx.Err()
		}
		return err
	}
	c.process.Store(p)
	c.done = make(chan struct{})
	if c.Cancel != nil && ownLife() {
		c.canceled = make(chan struct{})
		go c.watchContext(endLife)
	}
	go func() {
		defer endLife()
		c.exit, c.own, c.err = p.wait(context.WithoutCancel(c.ctx))
		if errors.Is(c.own, errReaderClosed) {
			c.own = nil // its user wanted no more; the exit is what counts
		}
		if c.err = c.sb.wrap(c.err, "wait", ""); errors.Is(c.err, context.Canceled) && c.ctx.Err() != nil {
			c.err = c.ctx.Err()
		}
		c.closePipes(c.err)
		close(c.done)
	}()
	return nil
}

// The bounds of what follows a KILL for the end of the context.
const (
	killTime = 5 * time.Second // until it is confirmed
	restTime = 2 * time.Second // until what was written is taken
)

// watchContext calls Cancel when the context ends before the command does, and sees to it
// that Wait ends after it: neither a place that is lost nor a writer that takes nothing
// holds it up for good.
func (c *Cmd) watchContext(endLife context.CancelFunc) {
	defer close(c.canceled)
	select {
	case <-c.done:
		return
	case <-c.ctx.Done():
	}
	err := c.Cancel()
	over := errors.Is(err, os.ErrProcessDone)
	switch {
	case over:
	case err != nil:
		c.cancelErr = err
	default:
		c.cancelErr = c.ctx.Err()
	}
	grace := (&Command{Grace: c.WaitDelay}).GraceOrDefault()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return
	case <-timer.C:
	}
	if !over {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), killTime)
		defer cancel()
		_ = c.Kill(ctx) // Wait reports a place that is lost
	}
	timer.Reset(restTime)
	select {
	case <-c.done:
	case <-timer.C:
		endLife()
	}
}

// Wait waits for the command that Start started, and for its output to be written.
// It returns what Run returns. The end of the context is the context's error.
func (c *Cmd) Wait() error {
	if c.process.Load() == nil {
		return c.misuse("the command was not started")
	}
	if c.waited.Swap(true) {
		return c.misuse("Wait was already called")
	}
	<-c.done
	if c.canceled != nil {
		<-c.canceled
	}
	if c.err == nil {
		c.Exit = &c.exit
	}
	switch {
	case c.cancelErr != nil:
		return c.cancelErr
	case c.err != nil:
		return c.err
	case !c.exit.Success():
		return &ExitError{Exit: c.exit}
	}
	return c.own
}

// Signal sends a signal to the command's process group. A command that has ended is
// no error.
func (c *Cmd) Signal(ctx context.Context, s Signal) error {
	p := c.process.Load()
	if p == nil {
		return c.misuse("the command was not started")
	}
	return p.Signal(ctx, s)
}

// Kill ends the command's whole tree with KILL and returns when that is done. What it had
// written, and nobody has read from StdoutPipe or StderrPipe, does not hold up Wait then: up
// to 64 MiB of each are kept to be read.
func (c *Cmd) Kill(ctx context.Context) error {
	p := c.process.Load()
	if p == nil {
		return c.misuse("the command was not started")
	}
	err := p.Kill(ctx)
	if err == nil {
		c.widenPipes()
	}
	return err
}

// widenPipes has the pipes of a command that was killed take all that is still on its way.
func (c *Cmd) widenPipes() {
	for _, p := range c.pipes {
		go p.widen(DefaultMaxCapture)
	}
}

// Output runs the command and returns its standard output. Of a command that did
// not succeed the *ExitError has the standard error output, if Stderr was nil.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.misuse("Stdout already set")
	}
	var stderr *headTail
	if c.Stderr == nil {
		const kept = 64 << 10
		stderr = newHeadTail(kept)
		c.Stderr = stderr
	}
	out, err := c.capture()
	var exit *ExitError
	if stderr != nil && errors.As(err, &exit) {
		exit.Stderr = stderr.Text()
		if n := missing(exit.StderrBytes, stderr.total); n > 0 {
			exit.Stderr = fmt.Appendf(exit.Stderr, "\n... omitting %d bytes ...\n", n)
		}
	}
	return out, err
}

// CombinedOutput runs the command and returns its standard output and standard
// error output, in the order of its writes.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil {
		return nil, c.misuse("Stdout already set")
	}
	if c.Stderr != nil {
		return nil, c.misuse("Stderr already set")
	}
	return c.capture()
}

// capture runs the command with its standard output kept, and its standard error
// output with it if that goes nowhere else.
func (c *Cmd) capture() ([]byte, error) {
	limit := c.MaxCapture
	switch {
	case limit < 0:
		return nil, c.misuse(fmt.Sprintf("MaxCapture of %d bytes", limit))
	case limit == 0:
		limit = DefaultMaxCapture
	}
	buf := &head{limit: limit}
	c.Stdout = buf
	if c.Stderr == nil {
		c.Stderr = buf
	}
	err := c.Run()
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return buf.kept, err
	}
	var cause error
	hint := "take the output as a stream, with Stdout or StdoutPipe"
	if n := missing(c.Exit.StdoutBytes, buf.came); n > 0 && c.Key != "" {
		cause = fmt.Errorf("the place has kept the first %d bytes of output for who repeats the key, and not the %d after them", buf.came, n)
		hint = "Exec and Start give what was kept; for all of it run the command with KeepOutput, and read its log"
	}
	if buf.came > limit {
		cause = fmt.Errorf("more than %d bytes of output", limit)
	}
	if cause != nil {
		if exit != nil {
			cause = fmt.Errorf("%w, then %w", cause, exit)
		}
		err = c.sb.wrap(&spec.Error{Code: spec.CodeTooLarge, Err: cause, Hint: hint}, "exec", "")
	}
	return buf.kept, err
}

// head keeps the first limit bytes that are written, counts and takes the rest.
type head struct {
	limit int64
	kept  []byte
	came  int64
}

func (h *head) Write(p []byte) (int, error) {
	k := min(h.limit-int64(len(h.kept)), int64(len(p)))
	h.kept = append(h.kept, p[:k]...)
	h.came += int64(len(p))
	return len(p), nil
}

// parseEnv turns "NAME=value" entries into a map; the last of a name wins. Values
// are never quoted in the error.
func parseEnv(entries []string) (map[string]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	env := make(map[string]string, len(entries))
	for i, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, spec.New(spec.CodeInvalid, fmt.Sprintf("env entry %d has no \"=\"", i))
		}
		env[name] = value
	}
	return env, nil
}

// sameWriter reports whether both are one writer that can be compared.
func sameWriter(a, b io.Writer) bool {
	return a != nil && b != nil && reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
