package place

import (
	"context"
	"io"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// createContainer creates the container of a plan, with a direct way to its guest unless the
// engine refuses to mount that.
func (d *Driver) createContainer(ctx context.Context, p *plan, bin guest.Bin, cpus int) (string, error) {
	d.direct.Remove(p.direct) // of one that has come to nothing
	if !p.relayed {
		p.direct = d.direct.Make(ctx)
	}
	id, err := d.engine.Create(ctx, p.auth, d.createOptions(p, bin, cpus))
	if err == nil {
		return id, nil
	}
	refused := p.refused(err)
	d.direct.Remove(p.direct)
	p.direct = ""
	if !refused {
		return "", err
	}
	p.relayed = true
	return d.engine.Create(ctx, p.auth, d.createOptions(p, bin, cpus))
}

// refused reports whether an error is about the directory of the direct way, whose name is
// like nothing else: it is not there where the engine is, or a runtime may not mount it.
func (p *plan) refused(err error) bool {
	return p.direct != "" && strings.Contains(err.Error(), p.direct)
}

// startRelayed starts a container that was created with a direct way which its runtime has
// refused, made again without it.
func (d *Driver) startRelayed(ctx context.Context, p *plan) (*guest.Session, error) {
	if err := d.engine.Remove(ctx, p.auth, p.created); err != nil {
		return nil, err
	}
	d.direct.Remove(p.direct)
	p.direct, p.relayed = "", true
	return d.provision(ctx, p)
}

// forget removes the directory of a direct way whose container has not come to be.
func (d *Driver) forget(ctx context.Context, p *plan) {
	if p.direct == "" {
		return
	}
	if _, err := d.engine.State(ctx, p.auth, p.created); spec.CodeOf(err) == spec.CodeNotFound {
		d.direct.Remove(p.direct)
	}
}

// again describes a container anew for a direct way, which means its first process: it may
// have been started again since.
func (d *Driver) again(ctx context.Context, auth driver.Authority, c *container.InspectResponse) *container.InspectResponse {
	if d.direct.Of(c) == "" {
		return c
	}
	now, err := d.engine.Inspect(ctx, auth, c.ID)
	if err != nil {
		return c // an exec says what is wrong
	}
	return now
}

// dialDirect makes a connection that the engine has no part in; nil where there is none.
func (d *Driver) dialDirect(ctx context.Context, c *container.InspectResponse, starting bool) io.ReadWriteCloser {
	conn, err := d.direct.Dial(ctx, d.direct.Of(c), c.State.Pid, starting)
	if err != nil {
		return nil // whatever it is, an exec works or says why not
	}
	return conn
}
