// Package shellbackend is a whole backend in a hundred lines: a place is what a shell command
// makes of the guest, its "$@"; `exec unshare -n "$@"` is this machine without a network.
//
// A backend does what Provision does here: it makes a place, puts a guest there, and hands
// the stream to guest.Open, which does the rest. Places end with their session: none has a key.
package shellbackend

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

// Options configure the backend.
type Options struct {
	Command string // a script for /bin/sh, whose stdin and stdout become the guest's
	Guest   guest.BinaryOptions
}

// New returns a driver of such places.
func New(o Options) driver.Driver { return backend{o} }

type backend struct{ o Options }

func (backend) Name() string { return "shell" }

func (backend) Probe(context.Context) (spec.Caps, error) {
	return spec.Caps{
		Backend: "shell", OS: runtime.GOOS, Arch: runtime.GOARCH,
		Isolation: spec.IsolationSet(spec.IsolationNone), Network: spec.NetworkSet(spec.NetworkOpen), NativePrograms: true,
	}, nil
}

func (b backend) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	if err := o.Authority.Check(ctx); err != nil { // nothing is made for a stale owner
		return nil, err
	}
	bin, err := guest.Binary(ctx, runtime.GOOS, runtime.GOARCH, b.o.Guest)
	if err != nil {
		return nil, err
	}
	p, workdir := &place{}, s.Workdir
	if workdir == "" {
		p.temp, err = os.MkdirTemp("", "shell-")
		workdir = p.temp
	}
	argv := append([]string{"-c", b.o.Command, "sh", bin.Path}, bin.Args...)
	p.cmd = exec.Command("/bin/sh", append(argv, "serve", "--stdio", "--id", "shell-"+rand.Text(),
		"--workdir", workdir, "--make-workdir", "--ttl", s.TTL.String(), "--idle", s.IdleTimeout.String())...)
	p.cmd.Env = p.cmd.Environ() // commands inherit the guest's environment, so the spec's goes there
	for name, value := range s.Env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	var inErr, outErr error
	p.WriteCloser, inErr = p.cmd.StdinPipe()
	p.ReadCloser, outErr = p.cmd.StdoutPipe()
	p.cmd.Err = errors.Join(err, inErr, outErr) // with which Start fails
	if err = p.cmd.Start(); err != nil {
		return nil, errors.Join(&spec.Error{Code: spec.CodeUnavailable, Err: err}, os.RemoveAll(p.temp))
	}
	caps, _ := b.Probe(ctx)
	session, err := guest.Open(ctx, p, guest.OpenOptions{Caps: caps, Authority: o.Authority, OnClose: p.end})
	if err != nil {
		return nil, errors.Join(err, p.end(ctx))
	}
	return session, nil
}

func (backend) Attach(context.Context, spec.Key, driver.AttachOptions) (driver.Session, error) {
	return nil, spec.New(spec.CodeNotFound, "places of this backend have no key")
}
func (backend) Owned(context.Context) ([]spec.Owned, error)              { return nil, nil }
func (backend) Reap(context.Context, spec.Key, driver.ReapOptions) error { return nil }

// place is a running command, with its standard streams as one.
type place struct {
	io.ReadCloser
	io.WriteCloser
	cmd  *exec.Cmd
	temp string // the workdir, if it was made for this place
}

func (p *place) Close() error { return errors.Join(p.WriteCloser.Close(), p.ReadCloser.Close()) }

// end waits for the guest, which ends with its stream, and kills it when ctx ends, or is late.
func (p *place) end(ctx context.Context) error {
	defer time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() }).Stop()
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	_ = p.cmd.Wait() // how it ended no longer matters
	return os.RemoveAll(p.temp)
}
