package fake

import (
	"context"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/filesys"
	"github.com/berth-dev/berth/backend/fake/internal/terminal"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Op is an operation that can be counted and made to fail.
type Op string

// The operations of a driver, of a session and of its files.
const (
	OpProbe     Op = "probe"
	OpProvision Op = "provision"
	OpAttach    Op = "attach"
	OpOwned     Op = "owned"
	OpReap      Op = "reap"
	OpStop      Op = "stop"

	OpStart    Op = "start"  // of a command
	OpOutput   Op = "output" // each piece of output on its way to the caller
	OpWait     Op = "wait"   // the answer to Wait, once
	OpSignal   Op = "signal"
	OpKill     Op = "kill"
	OpStatus   Op = "status"
	OpPing     Op = "ping"
	OpJobStart Op = "job_start"
	OpJobs     Op = "jobs"
	OpJobWait  Op = "job_wait"
	OpJobKill  Op = "job_kill"
	OpJobLog   Op = "job_log"
	OpHandOver Op = "hand_over"
	OpEvents   Op = "job_events"

	OpTerminate Op = "terminate"
	OpRunning   Op = "running"

	OpPlaceEvents Op = "events"
	OpDial        Op = "dial"
	OpListen      Op = "listen"
	OpPorts       Op = "ports"

	OpTerminalOpen   Op = "terminal_open"
	OpTerminalAttach Op = "terminal_attach"
	OpTerminalList   Op = "terminal_list"
	OpTerminalKill   Op = "terminal_kill"
	OpTerminalType   Op = terminal.OpType
	OpTerminalResize Op = terminal.OpResize

	OpOpen   Op = filesys.Open
	OpWrite  Op = filesys.Write
	OpBatch  Op = filesys.Batch
	OpStat   Op = filesys.Stat
	OpList   Op = filesys.List
	OpMkdir  Op = filesys.Mkdir
	OpRemove Op = filesys.Remove
	OpRename Op = filesys.Rename
	OpChmod  Op = filesys.Chmod
	OpCopy   Op = filesys.Copy
	OpGlob   Op = filesys.Glob
	OpGrep   Op = filesys.Grep
)

// Request is one operation, as Fault.Match sees it.
type Request struct {
	Op  Op
	Key spec.Key // of the place; generated for one without; "" before there is one
	// Args are those of a command, Path is the first name of a file operation.
	Args []string
	Path string
}

// Fault is something that goes wrong, once or several times. The parts that are set
// happen in this order: Delay, Err, the operation itself, Lost, Crash.
type Fault struct {
	// Op is the operation; "": any.
	Op Op
	// Match, if set, picks requests; it must not wait.
	Match func(Request) bool
	// After lets so many requests pass first; Times is how many are hit then, 0
	// meaning one and a negative number all.
	After, Times int

	// Delay holds the operation up. A ctx that ends meanwhile ends it.
	Delay time.Duration
	// Err is the answer, and nothing is done: spec.New(spec.CodeUnavailable, ...)
	// for a place that cannot be reached.
	Err error
	// Lost lets the operation happen and loses its answer: CodeUnknownOutcome.
	Lost bool
	// Crash takes the place down CrashAfter later: its processes are gone, whoever
	// waits for one gets CodeUnknownOutcome, jobs are lost, files stay. The place
	// is stopped then, until Provision starts it, or after BackAfter, if that is
	// positive, comes back by itself.
	Crash                 bool
	CrashAfter, BackAfter time.Duration
}

// Injected is a Fault at work.
type Injected struct {
	w     *World
	fault Fault
	seen  int
	hits  int
	off   bool
}

// Hits is how often the fault has struck.
func (i *Injected) Hits() int {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	return i.hits
}

// Remove ends the fault.
func (i *Injected) Remove() {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.off = true
}

// Inject adds a fault. Of several that match a request the oldest strikes.
func (w *World) Inject(f Fault) *Injected {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := &Injected{w: w, fault: f}
	w.script.faults = append(w.script.faults, i)
	return i
}

// strike counts a request and returns the fault that hits it.
func (w *World) strike(r Request) Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script.count(r.Op)
	for _, i := range w.script.faults {
		f := &i.fault
		if i.off || f.Op != "" && f.Op != r.Op || f.Match != nil && !f.Match(r) {
			continue
		}
		if i.seen++; i.seen <= f.After || f.Times >= 0 && i.hits >= max(f.Times, 1) {
			continue
		}
		i.hits++
		return *f
	}
	return Fault{}
}

var errLost = spec.New(spec.CodeUnknownOutcome, "the answer was lost")

// request is what every operation passes through: faults are struck, the fence is
// asked, and then it is done. p is its place, if there is one yet.
func (w *World) request(ctx context.Context, r Request, a driver.Authority, p *place, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := w.strike(r)
	if f.Delay > 0 {
		if err := sleep(ctx, f.Delay); err != nil {
			return err
		}
	}
	if f.Err != nil {
		return f.Err
	}
	if err := a.Check(ctx); err != nil {
		return err
	}
	err := do()
	if f.Crash {
		if p == nil {
			w.mu.Lock()
			p = w.places[r.Key]
			w.mu.Unlock()
		}
		if p != nil {
			p.crashLater(f.CrashAfter, f.BackAfter)
		}
	}
	if f.Lost {
		return errLost
	}
	return err
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// place finds a place by key, whoever owns it.
func (w *World) place(key spec.Key) (*place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.places[key]; p != nil {
		return p, nil
	}
	return nil, errNoPlace
}

// Crash takes the place with key down now; see Fault.Crash.
func (w *World) Crash(key spec.Key, backAfter time.Duration) error {
	p, err := w.place(key)
	if err == nil {
		p.crash(backAfter)
	}
	return err
}

// Usurp lets the place with key see an owner with epoch, as if it had taken over:
// whoever comes with a lower one is refused from now on.
func (w *World) Usurp(key spec.Key, epoch uint64) error {
	p, err := w.place(key)
	if err == nil {
		p.mu.Lock()
		p.epoch = max(p.epoch, epoch)
		p.mu.Unlock()
	}
	return err
}

// LimitDisk lets n more bytes be written to the place with key; what comes after is
// CodeNoSpace. A negative n lifts the limit.
func (w *World) LimitDisk(key spec.Key, n int64) error {
	p, err := w.place(key)
	if err == nil {
		p.disk.Set(n)
	}
	return err
}
