package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Verdict is what became of an attempt on what lies around a place.
type Verdict string

// The verdicts.
const (
	// WallStopped: it did not work, whether by the wall or by the rights of the user.
	WallStopped Verdict = "stopped"
	// WallOpen: it worked.
	WallOpen Verdict = "open"
	// WallReported: it worked, and the result of the command names it.
	WallReported Verdict = "reported"
	// WallUntried: it could not be tried, because this machine does not have what it
	// is about, or the place does not have the network policy.
	WallUntried Verdict = "untried"
)

// Probe is one attempt on what lies around a place.
type Probe struct {
	// Name is one word, unique.
	Name string
	// Topic is what it belongs to: reads, writes, network, sockets, processes, the
	// guest, the kernel.
	Topic string
	// What says what is tried, for a reader.
	What string
	// Network is the policy of the place in which it is tried. It is NetworkDefault
	// where that makes no difference.
	Network spec.Network
	// try makes the attempt.
	try func(ctx context.Context, a *attempt) (Verdict, error)
}

// Finding is what became of one probe.
type Finding struct {
	Probe   string       `json:"probe"`
	Topic   string       `json:"topic"`
	What    string       `json:"what"`
	Network spec.Network `json:"network,omitempty"`
	Verdict Verdict      `json:"verdict"`
}

// WallOptions say which wall is probed.
type WallOptions struct {
	// Open returns a driver whose places are made by this user on this machine, and
	// whose commands have this home directory, if it is for the driver to say.
	Open func(home string) (driver.Driver, error)
	// Spec is what the places are made of. Its Workdir and Network are not used.
	Spec spec.Spec
}

// Walls makes places and tries from inside to get at this machine: its files, network,
// sockets, processes and kernel. It returns one finding a probe, in the order of Probes.
// What it tries is harmless where it works, and what it makes on this machine is gone
// when it returns. It needs Linux, and places with a shell.
func Walls(ctx context.Context, o WallOptions) (found []Finding, err error) {
	host, err := newMachine()
	if err != nil {
		return nil, errors.Join(err, host.close())
	}
	defer func() { err = errors.Join(err, host.close()) }()
	d, err := o.Open(host.home)
	if err != nil {
		return nil, err
	}
	places := map[spec.Network]*attempt{}
	defer func() {
		for _, a := range places {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			err = errors.Join(err, a.sb.Destroy(end))
			cancel()
		}
	}()
	refused := map[spec.Network]bool{}
	for _, p := range Probes() {
		f := Finding{Probe: p.Name, Topic: p.Topic, What: p.What, Network: p.Network, Verdict: WallUntried}
		if places[p.Network] == nil && !refused[p.Network] {
			a, err := newAttempt(ctx, d, o.Spec, p.Network, host)
			switch {
			case p.Network != spec.NetworkDefault && errors.Is(err, spec.ErrUnsupported):
				refused[p.Network] = true
			case err != nil:
				return found, err
			default:
				places[p.Network] = a
			}
		}
		if !refused[p.Network] {
			if f.Verdict, err = p.try(ctx, places[p.Network]); err != nil {
				return found, fmt.Errorf("probe %s: %w", p.Name, err)
			}
		}
		found = append(found, f)
	}
	return found, nil
}

// attempt is one place, and the machine around it.
type attempt struct {
	sb   *berth.Sandbox
	caps spec.Caps
	host *machine
	// guest is the guest's pid, as a command sees it.
	guest string
}

func newAttempt(ctx context.Context, d driver.Driver, s spec.Spec, network spec.Network, host *machine) (*attempt, error) {
	s.Network, s.Workdir = network, host.work
	sb, err := berth.Provision(ctx, d, s)
	if err != nil {
		return nil, err
	}
	a := &attempt{sb: sb, host: host}
	if a.caps, err = sb.Caps(ctx); err == nil {
		var r *berth.Result
		if r, err = a.sh(ctx, "echo $PPID"); err == nil {
			a.guest = strings.TrimSpace(string(r.Stdout))
		}
	}
	if err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	return a, nil
}

// sh runs a script with arguments.
func (a *attempt) sh(ctx context.Context, script string, args ...string) (*berth.Result, error) {
	return a.sb.Exec(ctx, append([]string{"/bin/sh", "-c", script, "sh"}, args...), berth.ExecOptions{Timeout: long})
}

// works judges by the status of a script.
func (a *attempt) works(ctx context.Context, script string, args ...string) (Verdict, error) {
	r, err := a.sh(ctx, script, args...)
	if err != nil {
		return WallUntried, err
	}
	return openIf(r.Success()), nil
}

// reads judges by whether a file that holds the canary can be read.
func (a *attempt) reads(ctx context.Context, name string) (Verdict, error) {
	if name == "" {
		return WallUntried, nil
	}
	r, err := a.sh(ctx, `cat "$1"`, name)
	if err != nil {
		return WallUntried, err
	}
	return openIf(strings.Contains(string(r.Stdout), a.host.canary)), nil
}

// writes judges by whether a new file arrives in a directory of this machine, from
// which it is removed again.
func (a *attempt) writes(ctx context.Context, dir string) (Verdict, error) {
	name := dir + "/berth-walls-" + randomHex()
	r, err := a.sh(ctx, `echo x >"$1"`, name)
	if err != nil {
		return WallUntried, err
	}
	if os.Remove(name) != nil {
		return WallStopped, nil
	}
	if len(r.HostExecutable) > 0 {
		return WallReported, nil
	}
	return WallOpen, nil
}

// raw makes system calls in a program of their own, and judges by whether they work.
func (a *attempt) raw(ctx context.Context, calls ...rawcall.Call) (Verdict, error) {
	r, err := a.program(ctx, calls...)
	if err != nil || r == nil {
		return WallUntried, err
	}
	return openIf(r.Success()), nil
}

// program runs a program of system calls. Where none can be made it is nil.
func (a *attempt) program(ctx context.Context, calls ...rawcall.Call) (*berth.Result, error) {
	if a.caps.Arch != rawcall.Arch {
		return nil, nil
	}
	name := "berth-walls-" + randomHex()
	if err := a.sb.Files().WriteFile(ctx, name, rawcall.Program(calls...), files.WriteOptions{Mode: 0o755}); err != nil {
		return nil, err
	}
	r, err := a.sb.Exec(ctx, []string{"./" + name}, berth.ExecOptions{Timeout: long})
	return r, errors.Join(err, a.sb.Files().Remove(ctx, name, files.RemoveOptions{}))
}

func openIf(worked bool) Verdict {
	if worked {
		return WallOpen
	}
	return WallStopped
}
