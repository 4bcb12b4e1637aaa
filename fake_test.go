package berth_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
)

// fake is a driver whose places are Go values: it notes every call, and its
// commands are functions. It stands for what the portable types stand on.
type fake struct {
	mu    sync.Mutex
	calls []string

	caps      spec.Caps
	provision func(ctx context.Context) error // run within Provision
	session   func(s *fakeSession)            // changes what Provision and Attach return
	reapErr   error
	status    spec.Status
	n         int
}

// stopper is a fake that can stop places.
type stopper struct{ *fake }

func (s stopper) Stop(_ context.Context, key spec.Key, _ driver.ReapOptions) error {
	s.note("stop " + string(key))
	return nil
}

// suspender is a fake that can suspend places.
type suspender struct {
	*fake
	suspend func() error // run within Suspend
}

func (s suspender) Suspend(context.Context, spec.Key, driver.ReapOptions) error {
	s.note("suspend")
	if s.suspend != nil {
		return s.suspend()
	}
	return nil
}

func (s suspender) Resume(context.Context, spec.Key, driver.ReapOptions) error {
	s.note("resume")
	return nil
}

func newFake() *fake {
	return &fake{caps: spec.Caps{Backend: "fake", OS: "linux", Arch: "amd64", Keyed: true, Isolation: spec.IsolationSet(spec.IsolationNone)}}
}

func (f *fake) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// log returns the calls so far.
func (f *fake) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, ", ")
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Probe(context.Context) (spec.Caps, error) {
	f.note("probe")
	return f.caps, nil
}

func (f *fake) Provision(ctx context.Context, s *spec.Spec, _ driver.ProvisionOptions) (driver.Session, error) {
	f.note("provision")
	if f.provision != nil {
		if err := f.provision(ctx); err != nil {
			return nil, err
		}
	}
	return f.open(), nil
}

func (f *fake) Attach(context.Context, spec.Key, driver.AttachOptions) (driver.Session, error) {
	f.note("attach")
	return f.open(), nil
}

func (f *fake) open() *fakeSession {
	f.mu.Lock()
	f.n++
	s := &fakeSession{f: f, id: fmt.Sprintf("fk_%d", f.n), caps: f.caps, fs: memfs.New("/w")}
	f.mu.Unlock()
	if f.session != nil {
		f.session(s)
	}
	return s
}

func (f *fake) Owned(context.Context) ([]spec.Owned, error) {
	f.note("owned")
	return []spec.Owned{{Key: "tmp-other", ID: "fk_0"}, {Key: "tmp-made-up", ID: "fk_1", Ephemeral: true}}, nil
}

func (f *fake) Reap(_ context.Context, key spec.Key, _ driver.ReapOptions) error {
	f.note("reap " + string(key))
	return f.reapErr
}

type fakeSession struct {
	f    *fake
	id   string
	caps spec.Caps
	fs   files.FS
}

func (s *fakeSession) ID() string      { return s.id }
func (s *fakeSession) Caps() spec.Caps { return s.caps }
func (s *fakeSession) Files() files.FS { return s.fs }

func (s *fakeSession) Status(context.Context) (spec.Status, error) {
	s.f.note("status")
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	st := s.f.status
	st.State = spec.StateRunning
	return st, nil
}

func (s *fakeSession) Close(context.Context) error {
	s.f.note("close")
	return nil
}

// Start runs one of the programs below.
func (s *fakeSession) Start(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
	s.f.note("start")
	program, ok := programs[c.Args[0]]
	if !ok {
		return nil, spec.New(spec.CodeStartFailed, "no such program")
	}
	life, end := context.WithCancel(ctx)
	p := &fakeProcess{command: c, stdio: stdio, life: life, end: end, done: make(chan struct{}), signals: make(chan spec.Signal, 8)}
	if p.stdio.Stdout == nil {
		p.stdio.Stdout = io.Discard
	}
	if p.stdio.Stderr == nil {
		p.stdio.Stderr = io.Discard
	}
	if c.MergeOutput {
		p.stdio.Stderr = p.stdio.Stdout
	}
	go func() {
		defer close(p.done)
		p.exit, p.err = program(p)
		if ctx.Err() != nil {
			p.exit, p.err = spec.Exit{}, ctx.Err()
		}
	}()
	return p, nil
}

type fakeProcess struct {
	command *spec.Command
	stdio   driver.Stdio
	life    context.Context
	end     context.CancelFunc
	signals chan spec.Signal
	done    chan struct{}
	exit    spec.Exit
	err     error
}

func (p *fakeProcess) ID() string { return "p1" }

func (p *fakeProcess) Signal(_ context.Context, s spec.Signal) error {
	p.signals <- s
	return nil
}

func (p *fakeProcess) Kill(context.Context) error {
	p.end()
	return nil
}

func (p *fakeProcess) Wait(ctx context.Context) (spec.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return spec.Exit{}, ctx.Err()
	}
}

var errWritten = errors.New("written")

// programs are what a fake place can run.
var programs = map[string]func(p *fakeProcess) (spec.Exit, error){
	"true": func(*fakeProcess) (spec.Exit, error) { return spec.Exit{}, nil },
	"exit3": func(p *fakeProcess) (spec.Exit, error) {
		_, err := io.WriteString(p.stdio.Stderr, "it went wrong\n")
		return spec.Exit{Code: 3}, err
	},
	"timeout": func(*fakeProcess) (spec.Exit, error) { return spec.Exit{TimedOut: true}, nil },
	"lost": func(p *fakeProcess) (spec.Exit, error) {
		_, _ = io.WriteString(p.stdio.Stdout, "half")
		return spec.Exit{}, spec.New(spec.CodeUnknownOutcome, "the place is gone")
	},
	"env": func(p *fakeProcess) (spec.Exit, error) {
		_, err := fmt.Fprint(p.stdio.Stdout, p.command.Env)
		return spec.Exit{}, err
	},
	"both": func(p *fakeProcess) (spec.Exit, error) {
		var err error
		for i := range 5 {
			_, e1 := fmt.Fprintf(p.stdio.Stdout, "o%d ", i)
			_, e2 := fmt.Fprintf(p.stdio.Stderr, "e%d ", i)
			err = errors.Join(err, e1, e2)
		}
		return spec.Exit{}, err
	},
	// cat copies its input.
	"cat": func(p *fakeProcess) (spec.Exit, error) {
		if p.stdio.Stdin == nil {
			return spec.Exit{}, nil
		}
		_, err := io.Copy(p.stdio.Stdout, p.stdio.Stdin)
		return spec.Exit{}, err
	},
	// write writes 1 MiB, and more as long as somebody takes it.
	"write": func(p *fakeProcess) (spec.Exit, error) {
		buf := []byte(strings.Repeat("0123456789abcdef", 64))
		for range 1024 {
			if _, err := p.stdio.Stdout.Write(buf); err != nil {
				return spec.Exit{Code: 141, Signal: 13}, err
			}
		}
		return spec.Exit{}, nil
	},
	// wait ends by a signal, or never.
	"wait": func(p *fakeProcess) (spec.Exit, error) {
		select {
		case s := <-p.signals:
			return spec.Exit{Code: int(s)}, nil
		case <-p.life.Done():
			return spec.Exit{Code: 137, Signal: 9}, nil
		}
	},
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
