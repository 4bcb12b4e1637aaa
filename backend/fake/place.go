package fake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/backend/fake/internal/disk"
	"github.com/berth-dev/berth/backend/fake/internal/environ"
	"github.com/berth-dev/berth/backend/fake/internal/event"
	"github.com/berth-dev/berth/backend/fake/internal/job"
	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/backend/fake/internal/port"
	"github.com/berth-dev/berth/backend/fake/internal/programs"
	"github.com/berth-dev/berth/backend/fake/internal/shell"
	"github.com/berth-dev/berth/backend/fake/internal/stream"
	"github.com/berth-dev/berth/backend/fake/internal/terminal"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

var (
	errNoPlace = spec.New(spec.CodeNotFound, "there is no such place")
	errGone    = spec.New(spec.CodeNotFound, "the place is gone")
	errDown    = spec.New(spec.CodeUnavailable, "the place does not run")
	errClosed  = spec.New(spec.CodeNotFound, "the session is closed")
	errCrashed = spec.New(spec.CodeUnknownOutcome, "the place has crashed")
)

// place is one place: files that stay, and a system that runs or does not.
type place struct {
	w         *World
	key       spec.Key
	id, owner string
	ephemeral bool
	spec      *spec.Spec // resolved
	caps      spec.Caps
	env       []string // of commands
	programs  map[string]kernel.Main
	orphan    time.Duration
	created   time.Time
	fs        *memfs.FS
	disk      disk.Disk
	jobs      *job.Registry
	terminals terminal.Registry
	feed      *event.Feed // of this start; guarded by mu

	// changing holds one token while the place is started, stopped or removed.
	changing chan struct{}

	mu        sync.Mutex
	epoch     uint64
	kernel    *kernel.Kernel // nil while the place does not run
	ended     chan struct{}  // closed when it has ended
	network   *port.Network
	boot      int // counts the stops on purpose
	removed   bool
	clients   map[*session]bool
	running   int                 // commands
	live      map[*command]bool   // those, the jobs among them
	starts    int                 // how often the place has been started
	commands  map[string]*command // with a key
	kept      []*command          // of those, the ones that ended, the oldest first
	lastID    int
	idle, end *time.Timer // no client and no command (or, without a key, no client); TTL
	ends      time.Time   // when TTL ends it
	idleDue   time.Time   // zero: not counting
}

func newPlace(d *Driver, s *spec.Spec, n int) (*place, error) {
	p := &place{
		w: d.World, key: s.Key, id: fmt.Sprintf("fk_%d", n), owner: d.options.Owner, ephemeral: s.Key == "",
		spec: s, orphan: d.options.OrphanAfter, created: time.Now(), fs: memfs.New(s.Workdir),
		changing: make(chan struct{}, 1), commands: map[string]*command{}, live: map[*command]bool{}, clients: map[*session]bool{},
	}
	if p.ephemeral {
		p.key = spec.Key(fmt.Sprintf("fake-%d", n))
	}
	p.disk.Set(-1)
	if d.options.DiskBytes > 0 {
		p.disk.Set(d.options.DiskBytes)
	}
	p.caps = d.caps()
	p.caps.Isolation, p.caps.Network = spec.IsolationSet(s.Isolation), spec.NetworkSet(s.Network)
	p.caps.Shell, p.caps.Coreutils = true, true
	p.programs = programs.Table()
	p.programs["sh"] = shell.Main
	for name, run := range d.options.Programs {
		p.programs[name] = program(p, run)
	}
	p.env = environ.Place(d.options.Env, s.Env)
	p.jobs = job.New(p.fs)
	return p, kernel.Furnish(p.fs, p.programs, job.LogDir)
}

// lock takes the right to start, stop or remove the place.
func (p *place) lock(ctx context.Context) error {
	select {
	case p.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *place) unlock() { <-p.changing }

// admits refuses an owner that a newer one has taken over from.
func (p *place) admits(a driver.Authority) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.admitsLocked(a)
}

func (p *place) admitsLocked(a driver.Authority) error {
	if a.Epoch < p.epoch {
		return spec.New(spec.CodeStaleOwner, fmt.Sprintf("epoch %d: the place has seen %d", a.Epoch, p.epoch))
	}
	return nil
}

// start has the place run. gone says that it was removed meanwhile.
func (p *place) start(a driver.Authority) (gone bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.removed:
		return true, nil
	case p.admitsLocked(a) != nil:
		return false, p.admitsLocked(a)
	case p.kernel == nil:
		p.bootLocked()
	}
	return false, nil
}

// bootLocked starts the system and the timers.
func (p *place) bootLocked() {
	p.ended, p.feed, p.network = make(chan struct{}), event.New(), &port.Network{}
	p.starts++
	p.kernel = kernel.New(p.fs, p.programs, kernel.Hooks{Exec: p.exec, Space: p.disk.Take}, p.w.tick())
	if ttl := p.spec.TTL; ttl > 0 {
		k := p.kernel
		p.ends = time.Now().Add(ttl)
		p.end = time.AfterFunc(ttl, func() { p.expire(k) })
	}
	p.adjustLocked()
}

// exec is the kernel's hook: it notes what is run, and lets rules answer.
func (p *place) exec(proc *kernel.Proc, args []string) kernel.Main {
	var stdin *stream.Recording
	if c, ok := proc.Value.(*command); ok && proc.PID == 0 {
		stdin = &c.recorded
	}
	return p.w.intercept(p, proc, args, stdin)
}

// adjustLocked starts and stops the idle timer as clients and commands are.
func (p *place) adjustLocked() {
	after := p.spec.IdleTimeout
	busy := len(p.clients) > 0 || p.running > 0
	if p.ephemeral && len(p.clients) == 0 && (after == 0 || p.orphan < after || busy) {
		after, busy = p.orphan, false
	}
	if p.kernel == nil || busy || after == 0 {
		if p.idle != nil {
			p.idle.Stop()
		}
		p.idle, p.idleDue = nil, time.Time{}
		return
	}
	due := time.Now().Add(after)
	if p.idle != nil && !p.idleDue.After(due) {
		return
	}
	if p.idle != nil {
		p.idle.Stop()
	}
	k := p.kernel
	p.idleDue = due
	p.idle = time.AfterFunc(after, func() {
		p.mu.Lock()
		late := p.kernel == k && p.idleDue.Equal(due)
		p.mu.Unlock()
		if late {
			p.expire(k)
		}
	})
}

// expire ends the place on its own account: one with a key is stopped, another one is
// gone.
func (p *place) expire(k *kernel.Kernel) {
	p.mu.Lock()
	current := p.kernel == k
	p.mu.Unlock()
	if !current {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Nobody is there to be told of a program that does not end.
	if p.ephemeral {
		_ = p.remove(ctx)
	} else {
		_ = p.stop(ctx)
	}
}

// patience is how long programs have to return once their processes have ended.
const patience = 10 * time.Second

// down ends the system as the guest of a place does: TERM, a grace, KILL. It returns
// when no goroutine of a program is left.
func (p *place) down(ctx context.Context) error {
	p.mu.Lock()
	k := p.kernel
	p.mu.Unlock()
	if k == nil {
		return nil
	}
	p.jobs.Stopping(true)
	defer p.jobs.Stopping(false)
	k.Close()
	for _, c := range p.runs() {
		c.hangUp()
	}
	_ = k.Kill(nil, -1, int(spec.SIGTERM))
	_ = k.Kill(nil, -1, int(spec.SIGCONT))
	select {
	case <-k.Quiet():
	case <-time.After(spec.DefaultGrace):
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.boot++ // who was there before has lost its hold
	clear(p.clients)
	p.mu.Unlock()
	err := p.kill(ctx, k, nil)
	p.jobs.Drain(ctx)
	p.tell(spec.Event{Kind: spec.EventClosing})
	return err
}

// kill ends the system at once. lost is what those who wait for a command are told;
// nil: how the command ended.
func (p *place) kill(ctx context.Context, k *kernel.Kernel, lost error) error {
	p.mu.Lock()
	if p.kernel != k {
		p.mu.Unlock()
		return nil
	}
	p.kernel = nil
	for _, t := range []*time.Timer{p.idle, p.end} {
		if t != nil {
			t.Stop()
		}
	}
	p.idle, p.end, p.idleDue = nil, nil, time.Time{}
	p.commands, p.kept = map[string]*command{}, nil
	close(p.ended)
	p.network.Lose(errPlaceEnded)
	if lost != nil {
		p.feed.Lose(lost)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if lost != nil {
		k.Lose(lost)
		cancel() // a crash waits for nobody
	}
	if err := k.Shutdown(ctx); err != nil {
		return &spec.Error{Code: spec.CodeUnavailable, Err: err, Hint: "a fake.Program is to return when its context ends"}
	}
	return nil
}

// stop ends the system and keeps the files.
func (p *place) stop(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	return p.down(ctx)
}

// remove ends the place.
func (p *place) remove(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	err := p.down(ctx)
	p.mu.Lock()
	p.removed = true
	p.mu.Unlock()
	p.w.mu.Lock()
	if p.w.places[p.key] == p {
		delete(p.w.places, p.key)
	}
	p.w.mu.Unlock()
	return err
}

// crash takes the system down with no word to anybody. With backAfter it comes back.
func (p *place) crash(backAfter time.Duration) {
	p.mu.Lock()
	k := p.kernel
	p.mu.Unlock()
	if k == nil {
		return
	}
	_ = p.kill(context.Background(), k, errCrashed)
	if backAfter <= 0 {
		return
	}
	time.AfterFunc(backAfter, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.removed && p.kernel == nil {
			p.bootLocked()
		}
	})
}

func (p *place) crashLater(after, backAfter time.Duration) {
	if after <= 0 {
		p.crash(backAfter)
		return
	}
	time.AfterFunc(after, func() { p.crash(backAfter) })
}

// system returns the system that runs, or why there is none.
func (p *place) system() (*kernel.Kernel, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.removed:
		return nil, errGone
	case p.kernel == nil:
		return nil, errDown
	}
	return p.kernel, nil
}

func (p *place) state() spec.State {
	if _, err := p.system(); err != nil {
		return spec.StateStopped
	}
	return spec.StateRunning
}

func (p *place) owned(backend string) spec.Owned {
	return spec.Owned{
		Key: p.key, ID: p.id, Backend: backend, State: p.state(), Ephemeral: p.ephemeral, Image: p.spec.Image, Workdir: p.spec.Workdir,
		Isolation: p.spec.Isolation, Created: p.created, IdleTimeout: p.spec.IdleTimeout, TTL: p.spec.TTL,
	}
}
