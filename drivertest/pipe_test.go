//go:build linux

package drivertest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

// pipes is a driver in its smallest form: a place is a directory and a guest that
// speaks on its standard streams. It ends with the one client that made it.
type pipes struct {
	dir  string // the places are made below it
	wrap func(io.ReadWriteCloser) io.ReadWriteCloser
	lie  func(driver.Session) driver.Session
}

var pipeCaps = spec.Caps{Backend: "pipes", Jobs: spec.JobsProcess, Isolation: spec.IsolationSet(spec.IsolationNone), Network: spec.NetworkSet(spec.NetworkOpen)}

func (p *pipes) Name() string { return "pipes" }

func (p *pipes) Probe(context.Context) (spec.Caps, error) { return pipeCaps, nil }

func (p *pipes) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	if err := o.Authority.Check(ctx); err != nil {
		return nil, err
	}
	bin, err := guest.Binary(ctx, runtime.GOOS, runtime.GOARCH, guest.BinaryOptions{AllowSelf: true})
	if err != nil {
		return nil, err
	}
	id := "pipes_" + rand.Text()
	dir := filepath.Join(p.dir, id)
	workdir := s.Workdir
	if workdir == "" {
		workdir = dir
	}
	// The guest outlives this call, so ctx is not the command's.
	cmd := exec.Command(bin.Path, append(bin.Args, "serve", "--id", id, "--workdir", workdir, "--make-workdir", "--stdio", "--state", dir+".state")...)
	cmd.Stderr = os.Stderr
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	var stream io.ReadWriteCloser = &both{Reader: out, WriteCloser: in}
	if p.wrap != nil {
		stream = p.wrap(stream)
	}
	session, err := guest.Open(ctx, stream, guest.OpenOptions{
		ID: id, Caps: pipeCaps, Authority: o.Authority,
		OnClose: func(ctx context.Context) error {
			_ = awaitGuest(ctx, cmd)
			return errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".state"))
		},
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestTime)
		defer cancel()
		return nil, errors.Join(err, awaitGuest(ctx, cmd), os.RemoveAll(dir), os.RemoveAll(dir+".state"))
	}
	if p.lie != nil {
		return p.lie(session), nil
	}
	return session, nil
}

// guestTime is what a guest has to end in with which there was no talking.
const guestTime = 2 * time.Second

// awaitGuest waits for a guest, which ends with its input; one that has not at the end of ctx
// is killed.
func awaitGuest(ctx context.Context, cmd *exec.Cmd) error {
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	return cmd.Wait()
}

// both joins the two ends of a child's standard streams.
type both struct {
	io.Reader
	io.WriteCloser
}

var errNoKeys = spec.New(spec.CodeNotFound, "places have no keys here")

func (p *pipes) Attach(context.Context, spec.Key, driver.AttachOptions) (driver.Session, error) {
	return nil, errNoKeys
}
func (p *pipes) Owned(context.Context) ([]spec.Owned, error)              { return nil, nil }
func (p *pipes) Reap(context.Context, spec.Key, driver.ReapOptions) error { return nil }
