//go:build linux

package agent

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/agent/terminal"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// console is what makes a command the program of a terminal.
type console struct {
	*terminal.Terminal
	login bool     // a login shell
	unset []string // names of the place's environment
}

// startTerminal starts the program of a terminal, which belongs to no client.
func (a *agent) startTerminal(req *wire.ExecRequest, unset []string, t *terminal.Terminal, client string) error {
	run := *req
	run.Key, run.Keep, run.CleanEnv, run.TimeoutMS, run.NoOutputMS = "", false, false, 0, 0
	run.Merge, run.Stdin, run.Stdout, run.Stderr = false, false, false, false
	run.Env = map[string]wire.Bytes{"TERM": wire.Bytes("xterm-256color")}
	maps.Copy(run.Env, req.Env)
	login := len(run.Args) == 0
	if login {
		run.Args = []wire.Bytes{wire.Bytes(proc.LoginShell(run.User))}
	}
	c := newCommand(&run, client)
	c.console = &console{Terminal: t, login: login, unset: unset}
	return a.start(c, &run, nil, 0)
}

// shape makes a launch that of a terminal. Without one it does nothing.
func (t *console) shape(l *proc.Launch, c *spec.Command) {
	if t == nil {
		return
	}
	if t.login {
		l.Args = []string{"-" + filepath.Base(l.Args[0])}
	}
	l.Env = slices.DeleteFunc(l.Env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		_, given := c.Env[name]
		return !given && name != environ.Tag && slices.Contains(t.unset, name)
	})
}

// event is the kind of event that is told of a terminal in place of a command's.
func (t *console) event(kind spec.EventKind) spec.EventKind {
	switch kind {
	case spec.EventCommandBegun:
		return spec.EventTerminalBegun
	case spec.EventCommandEnded:
		return spec.EventTerminalEnded
	}
	return kind
}

// connectTerminal makes a pseudo-terminal of the command's streams. What it shows goes to
// its terminal, or to its job, to which nobody types.
func (a *agent) connectTerminal(c *command, size spec.TerminalSize, p *pipes) error {
	master, slave, err := terminal.Open(size.WithDefaults())
	if err != nil {
		return err
	}
	p.far = [3]*os.File{slave, slave, slave}
	p.near = append(p.near, master, slave)
	c.held = slave
	o, err := stream.NewOutlet(master, 0, false, &a.buffers)
	if err != nil {
		return err
	}
	o.Abandon()
	if c.console != nil {
		o.Tee(c.console)
	} else {
		o.Tee(c.keeper)
	}
	c.drains[0] = o
	return nil
}

// give makes the terminal of a command that of its user, who may open it again by its
// name. Where it cannot be, its program still has it.
func (p *pipes) give(user *proc.Identity) {
	if user != nil {
		_ = p.far[0].Chown(int(user.UID), -1)
	}
}

// beginConsole tells the terminal of a command, if it has one, that the command runs.
func (c *command) beginConsole(p *pipes) {
	if c.console == nil {
		return
	}
	c.console.Began(c.process.PID, c.name, p.near[0], c.process.Done, func(grace time.Duration) {
		c.end(grace, cause{reason: forKill})
	})
	c.id = c.console.ID()
}

// endConsole tells it that the command has ended.
func (c *command) endConsole() {
	if c.console != nil {
		c.console.Ended(&c.exit)
	}
}

// endTerminals ends the terminals, and returns when they have ended or should have.
func (a *agent) endTerminals(grace time.Duration) {
	var all sync.WaitGroup
	for _, c := range a.roster.all(func(c *command) bool { return c.console != nil }) {
		all.Go(func() {
			c.end(grace, cause{reason: forClosing})
			<-c.finished
		})
	}
	settled(&all, max(grace, spec.DefaultGrace)+2*proc.KillTime)
}
