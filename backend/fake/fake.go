package fake

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Options configure New. The zero value is a driver over a World of its own.
type Options struct {
	// World holds the places. Drivers over one World find each other's places, as
	// two processes on one machine would. nil: a new one.
	World *World
	// Name is the backend's name; "": "fake".
	Name string
	// Owner is the label that this driver puts on its places; it sees no others.
	Owner string
	// Programs are commands of the places, by their names on the PATH. One that a
	// place has anyway is replaced.
	Programs map[string]Program
	// Env is the environment of places, under the spec's: "NAME=value".
	Env []string
	// Claim is declared in addition to what places really do, so that a Spec that
	// asks for it is taken. Nothing of it is enforced. Isolation, Network and the
	// flags that Caps.Check asks about are used.
	Claim spec.Caps
	// OrphanAfter is how long a place without a key outlives its last client; 0:
	// 30 s.
	OrphanAfter time.Duration
	// DiskBytes is how much may be written to a place, what is removed not being
	// given back; 0: no limit. World.LimitDisk changes it.
	DiskBytes int64
}

const defaultOrphanAfter = 30 * time.Second

// Driver is the fake's driver.Driver. It can be told what to do through its World.
type Driver struct {
	*World
	options Options
}

// New returns a driver. It makes nothing.
func New(o Options) *Driver {
	if o.World == nil {
		o.World = NewWorld()
	}
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.OrphanAfter == 0 {
		o.OrphanAfter = defaultOrphanAfter
	}
	o.Env = slices.Clone(o.Env)
	return &Driver{World: o.World, options: o}
}

var (
	_ driver.Driver  = (*Driver)(nil)
	_ driver.Stopper = (*Driver)(nil)
)

// World is where places are: the machine that stands behind drivers. It is safe for
// concurrent use.
type World struct {
	mu     sync.Mutex
	places map[spec.Key]*place
	made   int       // places ever
	latest time.Time // that tick returned
	script script
}

// NewWorld returns a World without places.
func NewWorld() *World { return &World{places: map[spec.Key]*place{}} }

// tick is the time, later than it was the last time: also where a clock stands still, no
// two places start at once.
func (w *World) tick() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !now.After(w.latest) {
		now = w.latest.Add(1)
	}
	w.latest = now
	return now
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.options.Name }

// Probe implements driver.Driver.
func (d *Driver) Probe(ctx context.Context) (spec.Caps, error) {
	var c spec.Caps
	err := d.request(ctx, Request{Op: OpProbe}, driver.Authority{}, nil, func() error {
		c = d.caps()
		return nil
	})
	return c, err
}

// caps are those of the backend.
func (d *Driver) caps() spec.Caps {
	claim := d.options.Claim
	c := spec.Caps{
		Backend: d.options.Name, OS: "linux", Arch: runtime.GOARCH,
		Isolation: spec.IsolationSet(spec.IsolationNone) | claim.Isolation,
		Network:   spec.NetworkSet(spec.NetworkNone) | claim.Network,
		KillTree:  spec.KillTreeConfirmed, Keyed: true, Shielded: true, Jobs: spec.JobsProcess, Watch: true, Trees: true, Ports: true, Events: true, Terminals: true,
		Image: claim.Image, WritableRoots: claim.WritableRoots, HiddenPaths: claim.HiddenPaths, WorkspaceRoot: claim.WorkspaceRoot,
		LimitMemory: claim.LimitMemory, LimitPIDs: claim.LimitPIDs, LimitCPU: claim.LimitCPU, Hardening: claim.Hardening,
	}
	for name, have := range map[string]bool{
		"image": c.Image, "writable_roots": c.WritableRoots, "hidden_paths": c.HiddenPaths, "workspace_root": c.WorkspaceRoot,
		"limit_memory": c.LimitMemory, "limit_pids": c.LimitPIDs, "limit_cpu": c.LimitCPU, "hardening": c.Hardening, "command_user": false,
	} {
		if !have {
			c = c.AddMissing(name, "a place in memory enforces nothing; Options.Claim has it taken all the same")
		}
	}
	lines := strings.Split(c.Missing, "\n")
	slices.Sort(lines)
	c.Missing = strings.Join(lines, "\n")
	return c
}

// resolved is s with the backend's defaults filled in.
func (d *Driver) resolved(s *spec.Spec) *spec.Spec {
	r := s.Clone()
	if r.Workdir == "" {
		r.Workdir = "/workspace"
	}
	if r.Isolation == spec.IsolationDefault {
		r.Isolation = spec.IsolationNone
	}
	if r.Network == spec.NetworkDefault {
		r.Network = spec.NetworkNone
	}
	return r
}

// Provision implements driver.Driver.
func (d *Driver) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	var out *session
	err := d.request(ctx, Request{Op: OpProvision, Key: s.Key}, o.Authority, nil, func() error {
		p, err := d.provision(ctx, s, o)
		if err != nil {
			return err
		}
		out, err = p.open(d, o.Authority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// provision finds or makes the place of s, and has it run.
func (d *Driver) provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (*place, error) {
	resolved := d.resolved(s)
	for {
		p, fresh, err := d.claim(resolved)
		if err != nil {
			return nil, err
		}
		if !fresh {
			changed := spec.DifferingParts(p.spec.Parts(), resolved.Parts())
			switch {
			case len(changed) > 0 && !o.Replace:
				return nil, spec.New(spec.CodeSpecMismatch, "the place has another "+strings.Join(changed, ", "))
			case len(changed) > 0:
				if err := p.admits(o.Authority); err != nil {
					return nil, err
				}
				if err := p.remove(ctx); err != nil {
					return nil, err
				}
				continue
			}
		}
		if gone, err := p.start(o.Authority); err != nil || !gone {
			return p, err
		}
	}
}

// claim returns the place of a spec's key, or one that it has made.
func (d *Driver) claim(s *spec.Spec) (p *place, fresh bool, err error) {
	w := d.World
	w.mu.Lock()
	defer w.mu.Unlock()
	key := s.Key
	if p := w.places[key]; p != nil && key != "" {
		if p.owner != d.options.Owner {
			return nil, false, spec.New(spec.CodeExists, "the place belongs to another owner")
		}
		return p, false, nil
	}
	w.made++
	if p, err = newPlace(d, s, w.made); err != nil {
		return nil, false, err
	}
	w.places[p.key] = p
	return p, true, nil
}

// find returns the place of this driver's owner that has key.
func (d *Driver) find(key spec.Key) *place {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.places[key]
	if p == nil || p.owner != d.options.Owner {
		return nil
	}
	return p
}

// Attach implements driver.Driver.
func (d *Driver) Attach(ctx context.Context, key spec.Key, o driver.AttachOptions) (driver.Session, error) {
	var out *session
	err := d.request(ctx, Request{Op: OpAttach, Key: key}, o.Authority, nil, func() error {
		p := d.find(key)
		if p == nil {
			return errNoPlace
		}
		var err error
		out, err = p.open(d, o.Authority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Owned implements driver.Driver.
func (d *Driver) Owned(ctx context.Context) ([]spec.Owned, error) {
	var out []spec.Owned
	err := d.request(ctx, Request{Op: OpOwned}, driver.Authority{}, nil, func() error {
		d.mu.Lock()
		places := make([]*place, 0, len(d.places))
		for _, p := range d.places {
			if p.owner == d.options.Owner {
				places = append(places, p)
			}
		}
		d.mu.Unlock()
		slices.SortFunc(places, func(a, b *place) int { return strings.Compare(string(a.key), string(b.key)) })
		for _, p := range places {
			out = append(out, p.owned(d.options.Name))
		}
		return nil
	})
	return out, err
}

// Reap implements driver.Driver. A program that goes on although its context has ended
// is CodeUnavailable once ctx ends, or after 10 s; the place is gone all the same.
func (d *Driver) Reap(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	return d.request(ctx, Request{Op: OpReap, Key: key}, o.Authority, nil, func() error {
		p := d.find(key)
		if p == nil {
			return nil
		}
		if err := p.admits(o.Authority); err != nil {
			return err
		}
		return p.remove(ctx)
	})
}

// Stop implements driver.Stopper. A place that is not there is CodeNotFound.
func (d *Driver) Stop(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	return d.request(ctx, Request{Op: OpStop, Key: key}, o.Authority, nil, func() error {
		p := d.find(key)
		if p == nil {
			return errNoPlace
		}
		if err := p.admits(o.Authority); err != nil {
			return err
		}
		return p.stop(ctx)
	})
}
