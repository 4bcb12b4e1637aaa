package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/internal/engine/direct"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// claimLimit bounds the wait for a guest whose place is to be ended.
const claimLimit = 5 * time.Second

// Options configure New; a backend's own say what they mean.
type Options struct {
	Owner                     string
	Engine                    address.Options
	Credentials               string // the directory of the docker command's config.json; "": none
	BuildKit                  *bool
	StateDir                  string // where direct ways to guests are kept; "": there are none
	Limits                    *spec.Limits
	Hardening                 *spec.Hardening
	Guest                     guest.BinaryOptions
	Transport                 func(io.ReadWriteCloser) io.ReadWriteCloser
	OrphanAfter, ResumeWindow time.Duration
}

// New returns a driver for one engine. It makes no call.
func New(dialect engine.Dialect, o Options) (*Driver, error) {
	if o.Owner == "" {
		o.Owner = "default"
	}
	if err := spec.ValidateKey(spec.Key(o.Owner)); err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("owner %q: want the grammar of a key", o.Owner)}
	}
	limits, hardening, err := defaults(o)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(dialect, o.Engine)
	if err != nil {
		return nil, err
	}
	return &Driver{
		options: o, limits: limits, hardening: hardening, engine: e,
		images: image.New(e, image.Options{Owner: o.Owner, ConfigDir: o.Credentials, BuildKit: o.BuildKit}),
		direct: &direct.Dirs{Engine: e, State: o.StateDir, Target: directDir},
		bins:   map[string]guest.Bin{}, volumes: map[string]bool{},
	}, nil
}

// Driver makes places that are containers. Its own state is what it has learnt and
// need not ask again.
type Driver struct {
	options Options
	// What every container gets for which nothing else is said.
	limits    spec.Limits
	hardening spec.Hardening
	engine    *engine.Engine
	images    *image.Store
	direct    *direct.Dirs

	mu      sync.Mutex
	bins    map[string]guest.Bin // by GOARCH
	volumes map[string]bool      // guest volumes that exist
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.engine.Name }

// Probe implements driver.Driver.
func (d *Driver) Probe(ctx context.Context) (spec.Caps, error) {
	f, err := d.engine.Probe(ctx, driver.Authority{})
	if err != nil {
		return spec.Caps{}, err
	}
	caps := spec.Caps{
		Backend: d.engine.Name, OS: "linux", Arch: f.Arch,
		Isolation: spec.IsolationSet(spec.IsolationStandard, spec.IsolationStrict),
		Network:   spec.NetworkSet(spec.NetworkNone, spec.NetworkOpen),
		KillTree:  spec.KillTreeBestEffort,
		Keyed:     true, Image: true, Build: true, Shielded: true, ConfinedSockets: true, Resume: true, NativePrograms: true, Hardening: true, Jobs: spec.JobsDurable, Terminals: true, Watch: true, Trees: true, Ports: true, Events: true,
		Suspend: f.Pause, Snapshots: f.Pause,
		Mounts: true, PublishedPorts: true, NetworkModes: true, Secrets: true, Labels: true,
		LimitMemory: f.Memory, LimitPIDs: f.PIDs, LimitCPU: f.CPU, LimitDisk: f.NoDisk == "", GPUs: f.NoGPUs == "",
	}
	for _, l := range []struct {
		have bool
		name string
	}{{f.Memory, "limit_memory"}, {f.PIDs, "limit_pids"}, {f.CPU, "limit_cpu"}} {
		if !l.have {
			caps = caps.AddMissing(l.name, "the engine's kernel does not offer it")
		}
	}
	if !f.Pause {
		caps = caps.AddMissing("suspend", "without root the engine freezes nothing where control groups are of version 1")
	}
	for _, l := range []struct{ why, name string }{{f.NoDisk, "limit_disk"}, {f.NoGPUs, "gpus"}} {
		if l.why != "" {
			caps = caps.AddMissing(l.name, l.why)
		}
	}
	if f.Memory && f.PIDs && f.CPU {
		caps = d.noKeepID(caps)
	} else {
		caps.Isolation = spec.IsolationSet(spec.IsolationStandard)
		caps = caps.AddMissing(string(spec.IsolationStrict), "it limits memory, processes and CPUs, which the engine's kernel does not offer")
	}
	caps = caps.AddMissing("network "+string(spec.NetworkLimited), "this backend has no gate")
	return caps, nil
}

// Provision implements driver.Driver.
func (d *Driver) Provision(ctx context.Context, s *spec.Spec, o driver.ProvisionOptions) (driver.Session, error) {
	s, err := named(ctx, s)
	if err != nil {
		return nil, err
	}
	p, err := d.plan(s, o)
	if err != nil {
		return nil, err
	}
	if p.ephemeral {
		d.pruner().Sweep(ctx, p.auth)
	}
	return d.bring(ctx, p)
}

// bring carries out a plan.
func (d *Driver) bring(ctx context.Context, p *plan) (driver.Session, error) {
	session, err := d.provision(ctx, p)
	// The guest's volume is taken for good until a start says otherwise.
	if _, ok := errors.AsType[*guestError](err); ok || err != nil && p.created != "" && p.refused(err) {
		session, err = d.mend(ctx, p, err)
	}
	if g, ok := errors.AsType[*guestError](err); ok {
		err = g.err
	}
	if err == nil {
		return d.session(session, p.auth, p.found), nil
	}
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	switch {
	case p.ephemeral:
		// Nobody will ever ask for it. The name, as a create that was cut off
		// has told no id.
		_ = d.engine.Remove(bg, p.auth, p.name)
	case p.fresh:
		d.undo(bg, p, err)
	case p.created != "":
		// A port that is in use, a mount that is not there: it would fail again.
		_ = d.engine.Discard(bg, p.auth, p.created)
	}
	d.forget(bg, p)
	return nil, err
}

// undo removes the container of a plan that has failed and whose place was not to be there
// before. A create that was cut off has told no id, and may go on: what it makes is known by
// the name of the guest's socket, which is random.
func (d *Driver) undo(ctx context.Context, p *plan, failed error) {
	code := spec.CodeOf(failed)
	cutOff := p.created == "" && p.listen != "" && (code == "" || code == spec.CodeUnknownOutcome)
	for try := 1; cutOff; try++ {
		c, err := d.engine.Inspect(ctx, p.auth, p.name)
		switch {
		case err == nil && c.Config.Labels[labelListen] == p.listen:
			p.created, cutOff = c.ID, false
		case err == nil || try == thawTries || engine.Pause(ctx, engine.PollEvery) != nil:
			return
		}
	}
	if p.created != "" {
		_ = d.engine.Remove(ctx, p.auth, p.created)
	}
}

// Attach implements driver.Driver.
func (d *Driver) Attach(ctx context.Context, key spec.Key, o driver.AttachOptions) (driver.Session, error) {
	c, err := d.find(ctx, o.Authority, key)
	if err != nil {
		return nil, err
	}
	if !alive(c) {
		return nil, notRunning(c, c.State.Status)
	}
	session, err := d.connect(ctx, o.Authority, c)
	if err != nil {
		return nil, err
	}
	return d.session(session, o.Authority, c), nil
}

// Owned implements driver.Driver.
func (d *Driver) Owned(ctx context.Context) ([]spec.Owned, error) {
	items, err := d.engine.List(ctx, driver.Authority{}, map[string]string{labelOwner: d.options.Owner})
	if err != nil {
		return nil, err
	}
	owned := make([]spec.Owned, 0, len(items))
	for _, c := range items {
		if d.ours(c) {
			owned = append(owned, d.describe(c, spec.Key(c.Labels[labelKey])))
		}
	}
	return owned, nil
}

// Reap implements driver.Driver.
func (d *Driver) Reap(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	c, err := d.find(ctx, o.Authority, key)
	if err != nil {
		if spec.CodeOf(err) == spec.CodeNotFound {
			return nil
		}
		return err
	}
	return d.end(ctx, o.Authority, c)
}

// end removes a place, unless a newer owner has it.
func (d *Driver) end(ctx context.Context, auth driver.Authority, c *container.InspectResponse) error {
	session, err := d.claim(ctx, auth, c)
	if err != nil {
		return err
	}
	if session != nil {
		_ = session.Close(ctx) // what matters is the removal
	}
	var helper error
	if c.State.Status == container.StateCreated {
		helper = d.removeHelper(ctx, auth, c.ID)
	}
	if err := d.engine.Remove(ctx, auth, c.ID); err != nil {
		return err
	}
	d.direct.Remove(d.direct.Of(c))
	if c.Config.Labels[snapshot.LabelID] != "" {
		helper = cmp.Or(helper, d.snapshots().Collect(ctx, auth, c.Image))
	}
	return helper
}

// claim shows the guest the authority to end its place: only the guest knows the
// highest epoch there was. A refusal is CodeStaleOwner. A guest that does not answer
// in a moment has no say: then there is no session, and no error but the context's.
func (d *Driver) claim(ctx context.Context, auth driver.Authority, c *container.InspectResponse) (*guest.Session, error) {
	if !alive(c) {
		return nil, ctx.Err()
	}
	bounded, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	session, err := d.connect(bounded, auth, c)
	switch {
	case err == nil:
		return session, nil
	case spec.CodeOf(err) == spec.CodeStaleOwner:
		return nil, err
	}
	return nil, ctx.Err()
}

// Stop implements driver.Stopper. The guest ends the commands with TERM, a grace
// and KILL, then itself; a guest that does not answer is killed.
func (d *Driver) Stop(ctx context.Context, key spec.Key, o driver.ReapOptions) error {
	c, err := d.find(ctx, o.Authority, key)
	if err != nil {
		return err
	}
	session, err := d.claim(ctx, o.Authority, c)
	if err != nil {
		return err
	}
	if session != nil {
		bounded, cancel := context.WithTimeout(ctx, spec.DefaultGrace+claimLimit)
		defer cancel()
		_ = session.Shutdown(bounded, spec.DefaultGrace)
		_ = session.Close(ctx)
	}
	return d.engine.Stop(ctx, o.Authority, c.ID)
}

// find returns the container of key, if it is ours, as look does. CodeNotFound: there is
// none.
func (d *Driver) find(ctx context.Context, auth driver.Authority, key spec.Key) (*container.InspectResponse, error) {
	c, err := d.look(ctx, auth, key)
	if err != nil {
		return nil, err
	}
	return c, d.checkOwner(c, key)
}

// binary returns the guest binary for the engine's architecture.
func (d *Driver) binary(ctx context.Context, arch string, progress func(spec.Progress)) (guest.Bin, error) {
	d.mu.Lock()
	bin, ok := d.bins[arch]
	d.mu.Unlock()
	if ok {
		return bin, nil
	}
	o := d.options.Guest
	// The program itself may be the wrong platform, and is no static binary
	// for an image without a C library.
	o.AllowSelf = false
	if progress != nil {
		o.Progress = progress
	}
	bin, err := guest.Binary(ctx, "linux", arch, o)
	if err != nil {
		return bin, err
	}
	d.mu.Lock()
	d.bins[arch] = bin
	d.mu.Unlock()
	return bin, nil
}
