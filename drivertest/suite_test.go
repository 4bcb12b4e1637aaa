//go:build linux

package drivertest_test

import (
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest"
	"github.com/berth-dev/berth/guest/selfexec"
	"github.com/berth-dev/berth/spec"
)

func TestMain(m *testing.M) {
	selfexec.Main()
	os.Exit(m.Run())
}

// The suite passes on a real guest behind the smallest of drivers, and leaves
// nothing in its directory.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	t.Run("suite", func(t *testing.T) {
		o := drivertest.Options{Open: func() (driver.Driver, error) { return &pipes{dir: dir}, nil }, Brief: true} // the backends run them all
		if testing.Short() {
			o.Only = regexp.MustCompile("^(Exec|Command|Stdin|Files|Close)")
		}
		drivertest.Run(t, o)
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d places are left, %v", len(left), err)
	}
}

// A choice that no case is in is refused: nothing would have been tried.
func TestCheckOfNothing(t *testing.T) {
	_, err := drivertest.Check(t.Context(), drivertest.Options{
		Only: regexp.MustCompile("^NoSuchCase$"),
		Open: func() (driver.Driver, error) { t.Error("a driver was opened"); return nil, io.EOF },
	}, nil)
	if spec.CodeOf(err) != spec.CodeInvalid || !strings.Contains(err.Error(), "NoSuchCase") {
		t.Errorf("%v; want invalid, with the pattern", err)
	}
}

// The same cases pass outside of go test, through a stream that misbehaves.
func TestCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("the slow stream is slow")
	}
	dir := t.TempDir()
	heard := 0
	report, err := drivertest.Check(t.Context(), drivertest.Options{
		Open: func() (driver.Driver, error) { return &pipes{dir: dir, wrap: drivertest.SlowStream}, nil }, Brief: true,
	}, func(r drivertest.Result) {
		heard++
		switch r.Outcome {
		case drivertest.Failed:
			t.Errorf("%s: %s\nrule: %s", r.Case, strings.Join(r.Messages, "\n"), r.Rule)
		case drivertest.Skipped:
			if r.Reason == "" {
				t.Errorf("%s is skipped without a reason", r.Case)
			}
		}
	})
	if err != nil || !report.OK() || heard != len(report.Results) || heard != report.Passed+report.Skipped {
		t.Errorf("%v, %d reported of %d: %d passed, %d failed, %d skipped", err, heard, len(report.Results), report.Passed, report.Failed, report.Skipped)
	}
}

// startFunc is Start of s, changed.
type startFunc func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error)

// liar is a session that breaks one promise.
type liar struct {
	driver.Session
	start func(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error)
}

func (l *liar) Start(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
	return l.start(ctx, c.Clone(), stdio)
}

// changed is a process whose exit is told otherwise.
type changed struct {
	driver.Process
	exit func(spec.Exit) spec.Exit
}

func (c changed) Wait(ctx context.Context) (spec.Exit, error) {
	exit, err := c.Process.Wait(ctx)
	return c.exit(exit), err
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A backend that breaks a promise is caught by the case that is about it.
func TestLiesAreCaught(t *testing.T) {
	lies := map[string]startFunc{
		"ExecCapturesBothStreams": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.MergeOutput = true
			return s.Start(ctx, c, stdio)
		},
		"ExecReportsExitCodes": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			p, err := s.Start(ctx, c, stdio)
			return changed{p, func(e spec.Exit) spec.Exit { e.TimedOut = e.Code == 124; return e }}, err
		},
		"ExecIsArgvNotShell": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.Args = spec.Shell(strings.Join(c.Args, " "))
			return s.Start(ctx, c, stdio)
		},
		"OutputIsByteExact": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			if out := stdio.Stdout; out != nil {
				stdio.Stdout = writer(func(p []byte) (int, error) {
					_, err := io.WriteString(out, strings.ToValidUTF8(string(p), "?"))
					return len(p), err
				})
			}
			return s.Start(ctx, c, stdio)
		},
		"StdinIsEmptyUnlessGiven": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			if stdio.Stdin == nil {
				stdio.Stdin = strings.NewReader("something")
			}
			return s.Start(ctx, c, stdio)
		},
		"CleanEnvIsExact": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.CleanEnv = false
			return s.Start(ctx, c, stdio)
		},
		"WorkdirIsRelative": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.Dir = ""
			return s.Start(ctx, c, stdio)
		},
		"TimeoutIsNotTheExitCode": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			p, err := s.Start(ctx, c, stdio)
			return changed{p, func(e spec.Exit) spec.Exit { e.TimedOut = e.TimedOut && e.Code != 0; return e }}, err
		},
		"CancelIsAnError": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.Timeout = 0
			return s.Start(context.WithoutCancel(ctx), c, stdio)
		},
		"CommandKeyRunsOnce": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			c.Key = ""
			return s.Start(ctx, c, stdio)
		},
		"ExecCountsOutput": func(ctx context.Context, s driver.Session, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
			p, err := s.Start(ctx, c, stdio)
			return changed{p, func(e spec.Exit) spec.Exit { e.StdoutBytes++; return e }}, err
		},
	}
	for name, start := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lie := func(s driver.Session) driver.Session {
				return &liar{s, func(ctx context.Context, c *spec.Command, stdio driver.Stdio) (driver.Process, error) {
					return start(ctx, s, c, stdio)
				}}
			}
			report, err := drivertest.Check(t.Context(), drivertest.Options{
				Open: func() (driver.Driver, error) { return &pipes{dir: dir, lie: lie}, nil },
				Only: regexp.MustCompile("^" + name + "$"),
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				if r.Case == name && r.Outcome != drivertest.Failed {
					t.Errorf("the lie was not caught: %s %s", r.Outcome, r.Reason)
				}
			}
			if len(report.Results) == 0 {
				t.Errorf("there is no case %s", name)
			}
		})
	}
}

// silent is a session whose listeners hand out nobody, or whose connections bring nothing.
type silent struct {
	driver.Session
	driver.Dialer
	deaf bool
}

func (s *silent) Caps() spec.Caps {
	c := s.Session.Caps()
	c.NativePrograms = true
	return c
}

func (s *silent) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := s.Dialer.Dial(ctx, network, address)
	if err != nil || s.deaf {
		return conn, err
	}
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	conn.Close()
	return &silentConn{near}, nil
}

func (s *silent) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	l, err := s.Dialer.Listen(ctx, network, address)
	if err != nil || !s.deaf {
		return l, err
	}
	return &deafListener{Listener: l, closed: make(chan struct{})}, nil
}

type silentConn struct{ net.Conn }

func (*silentConn) CloseWrite() error   { return nil }
func (*silentConn) SetLinger(int) error { return nil }

type deafListener struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

func (l *deafListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *deafListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// TestPortCasesObeyTheirTime defends: a case about ports ends with its time, whoever does not
// come or says nothing.
func TestPortCasesObeyTheirTime(t *testing.T) {
	for name, deaf := range map[string]bool{"PortsKeepHalfClose": true, "PortsReachPrograms": true, "PortsManyConnections": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			lie := func(s driver.Session) driver.Session { return &silent{s, s.(driver.Dialer), deaf} }
			report, err := drivertest.Check(t.Context(), drivertest.Options{
				Open:    func() (driver.Driver, error) { return &pipes{dir: dir, lie: lie}, nil },
				Only:    regexp.MustCompile("^" + name + "$"),
				Timeout: 5 * time.Second, OrphanAfter: time.Millisecond, ResumeWindow: time.Millisecond,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				said := strings.Join(r.Messages, "|")
				if r.Case == name && (r.Outcome != drivertest.Failed || strings.Contains(said, "did not end")) {
					t.Errorf("%s after %v: %s %.500s; want it failed in time", r.Outcome, r.Duration, r.Reason, said)
				}
			}
		})
	}
}

// TestProvisionDoesNotWaitForItsGuest defends: where there is no talking with a guest that does
// not end either, Provision of pipes ends.
func TestProvisionDoesNotWaitForItsGuest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	p := &pipes{dir: t.TempDir(), wrap: func(kept io.ReadWriteCloser) io.ReadWriteCloser { return keptOpen{kept} }}
	done := make(chan error, 1)
	go func() {
		_, err := p.Provision(ctx, &spec.Spec{}, driver.ProvisionOptions{})
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a place with which there is no talking was provisioned")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for a guest that does not end")
	}
}

// keptOpen is a stream on which nothing comes, and which is not closed.
type keptOpen struct{ io.ReadWriteCloser }

func (keptOpen) Read([]byte) (int, error)    { select {} }
func (keptOpen) Write(p []byte) (int, error) { return len(p), nil }
func (keptOpen) Close() error                { return nil }
