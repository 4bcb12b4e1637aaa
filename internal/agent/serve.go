//go:build linux

package agent

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/internal/agent/confine"
	"github.com/berth-dev/berth/internal/agent/direct"
	"github.com/berth-dev/berth/internal/agent/event"
	"github.com/berth-dev/berth/internal/agent/fileserver"
	"github.com/berth-dev/berth/internal/agent/job"
	"github.com/berth-dev/berth/internal/agent/oom"
	"github.com/berth-dev/berth/internal/agent/peer"
	"github.com/berth-dev/berth/internal/agent/port"
	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/agent/terminal"
	"github.com/berth-dev/berth/internal/agent/wall"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// agent is a guest.
type agent struct {
	cfg       *config
	env       []string // of the place
	null      *os.File
	buffers   stream.Buffers
	reaper    *proc.Reaper
	groups    *proc.Groups // nil where there are none to be had
	table     *table
	roster    *roster
	life      *life
	feed      *event.Feed
	files     files.FS
	watches   fileserver.Watches
	jobs      *job.Server // nil without a directory for the place's state
	ports     *port.Server
	terminals *terminal.Registry
	wall      *wall.Wall // nil without one
	memory    *oom.Watch // nil where memory that ran out leaves no trace
	// changesUser: a command can run as another user.
	changesUser bool
	// first: no earlier guest has served the place; one on stdio ends with it.
	first       bool
	incarnation string // random: this guest, and none after it
}

// maxThreads bounds how many threads of the guest run at one time.
const maxThreads = 4

// serve is the verb: it returns when the place has ended. self are the arguments that
// stand before a verb.
func serve(args, self []string) error {
	cfg, err := parseServe(args)
	if err != nil {
		return err
	}
	cfg.self = self
	if err := cfg.wall.Enter(); err != nil {
		return err
	}
	signals := proc.TakeSignals()
	clearMask := func() error { return proc.ClearSignalMask(os.Environ()) }
	for _, prepare := range []func() error{proc.Hide, clearMask, proc.AdoptOrphans} {
		if err := prepare(); err != nil {
			return err
		}
	}
	if err := proc.CloseInherited(cfg.listenFD); err != nil {
		return err
	}
	if err := cfg.confineCommands(); err != nil {
		return err
	}
	// Most of what the guest allocates are frames that are gone at once, and its
	// work is small beside that of its commands: a tighter heap and a few
	// threads cost little. One is not enough: a fork keeps its own.
	debug.SetGCPercent(50)
	runtime.GOMAXPROCS(min(max(runtime.NumCPU(), 2), maxThreads))
	listener, err := cfg.listen()
	if err != nil {
		return err
	}
	a, err := newAgent(cfg)
	if err != nil {
		return err
	}
	return a.run(listener, signals)
}

// confineCommands does what --confine asks for, and adds what a person should know of it to
// the notice.
func (c *config) confineCommands() error {
	if !c.confine {
		return nil
	}
	// A guest that has dropped root is in no user namespace of its own, in which new
	// ones could be forbidden.
	notice, err := confine.Install(confine.Options{RefuseClone3: c.wall.Drops()})
	if err != nil {
		return err
	}
	if c.notice != "" && notice != "" {
		notice = "; " + notice
	}
	c.notice += notice
	return nil
}

// listen makes the socket that the host comes to; nil for stdio.
func (c *config) listen() (net.Listener, error) {
	switch {
	case c.stdio:
		return nil, nil
	case c.listenAbstract != "":
		return net.Listen("unix", "@"+c.listenAbstract)
	}
	f := os.NewFile(uintptr(c.listenFD), "listener")
	if f == nil {
		return nil, fmt.Errorf("listen on descriptor %d: %w", c.listenFD, syscall.EBADF)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen on descriptor %d: %w", c.listenFD, err)
	}
	return l, nil
}

func newAgent(cfg *config) (*agent, error) {
	if cfg.makeWorkdir {
		if err := os.MkdirAll(cfg.workdir, 0o755); err != nil {
			return nil, fmt.Errorf("workdir: %w", err)
		}
	}
	if st, err := os.Stat(cfg.workdir); err != nil {
		return nil, fmt.Errorf("workdir: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("workdir: %s: not a directory", cfg.workdir)
	}
	// Who hands in a listener has made the state directory: it is missing only where the
	// place has been removed meanwhile, and nothing of it is to be made again.
	if cfg.listenFD >= 0 && cfg.state != "" {
		if _, err := os.Stat(cfg.state); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
	}
	fsys, err := openFiles(cfg)
	if err != nil {
		return nil, err
	}
	null, err := proc.OpenNull()
	if err != nil {
		return nil, err
	}
	feed := event.New()
	a := &agent{cfg: cfg, env: environ.Place(cfg.wall.Environ()), null: null, groups: proc.NewGroups(), memory: cfg.limit.Watch(cfg.peer == peer.Engine), incarnation: rand.Text(), table: newTable(cfg.resume), roster: newRoster(), first: cfg.stdio, life: newLife(cfg, feed), feed: feed, files: fsys, wall: cfg.wall.Wall(), changesUser: proc.CanChangeUser()}
	a.terminals = terminal.NewRegistry(&a.buffers, cfg.resume, a.startTerminal)
	cfg.limit.SpareThreads()
	a.reaper = proc.NewReaper(cfg.peer == peer.Engine, a.groups.Sweep)
	if err := a.openJobs(); err != nil {
		return nil, err
	}
	return a, nil
}

// openFiles are the files that the guest serves, as long as it lives.
func openFiles(cfg *config) (files.FS, error) {
	if cfg.root == "" {
		return localfs.New(cfg.workdir), nil
	}
	return localfs.NewRooted(cfg.workdir, cfg.root)
}

// run serves until the place ends, then ends what lives in it.
func (a *agent) run(listener net.Listener, signals <-chan os.Signal) error {
	a.ports = port.New(a.cfg.workdir, a.cfg.portScope(), listener, &a.buffers)
	go a.reaper.Run()
	go a.heed(signals)
	a.feed.Record(wire.PlaceEvent{Kind: string(spec.EventStarted), PID: os.Getpid()})
	a.life.begin()
	if l, err := direct.Listen(a.cfg.direct); err == nil { // else a host comes the other way
		defer l.Close()
		go a.accept(l, peer.Outside)
	}
	if listener != nil {
		go a.accept(listener, a.cfg.peer)
	} else {
		go func() {
			a.converse(stdio{}, func() {})
			a.life.end(a.cfg.grace) // there is no way back in
		}()
	}
	grace := <-a.life.ending
	if listener != nil {
		listener.Close()
	}
	a.endEverything(grace)
	a.ports.Close()
	a.groups.Close()
	for _, path := range a.wall.Unsaid() {
		a.feed.Record(wire.PlaceEvent{Kind: string(spec.EventHostExecutable), Path: path})
	}
	a.feed.End(lastWord)
	a.life.dismiss()
	return nil
}

// endEverything ends the commands, and beside them the background children of
// those that had ended. It is bounded: what holds up an end, such as a command that
// stops another one which is about to start, is killed before it is waited for again.
func (a *agent) endEverything(grace time.Duration) {
	begun := time.Now()
	var commands sync.WaitGroup
	commands.Go(func() { a.endAll(func(*command) bool { return true }, grace, cause{reason: forClosing}) })
	commands.Go(func() { a.endJobs(grace) })
	commands.Go(func() { a.endTerminals(grace) })
	proc.TerminateDescendants(a.reaper.Leaders(), grace)
	settled(&commands, time.Until(begun.Add(grace+proc.KillTime)))
	proc.KillDescendants()
	settled(&commands, proc.KillTime)
}

// heed drains the signals that proc.TakeSignals has taken. A place without a shield is
// ended by TERM as any program is; an init is ended by its host only.
func (a *agent) heed(signals <-chan os.Signal) {
	for s := range signals {
		if s == syscall.SIGTERM && a.cfg.peer == peer.User && os.Getpid() != 1 {
			a.life.end(a.cfg.grace)
		}
	}
}

// dismiss closes every connection, after what is still to be said on it, in two seconds.
func (l *life) dismiss() {
	l.mu.Lock()
	var muxes []*wire.Mux
	for cl := range l.clients {
		if cl.mux != nil {
			muxes = append(muxes, cl.mux)
		}
	}
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, m := range muxes {
		all.Go(func() { m.Close() })
	}
	settled(&all, 2*time.Second) // the host of a guest on pipes may never end what that reads
}

func (a *agent) status() *wire.Status {
	s := a.life.status()
	s.Version, s.Notice = Version(), a.cfg.notice
	u := a.memory.Usage()
	s.MemoryBytes, s.MemoryPeakBytes, s.OOMKills = u.Current, u.Peak, u.Kills
	return s
}

// stdio is the connection of a guest whose host is at its standard streams.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

var _ io.ReadWriteCloser = stdio{}
