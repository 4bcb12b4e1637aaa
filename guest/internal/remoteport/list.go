package remoteport

import (
	"context"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Ports lists what listens inside.
func (c *Client) Ports(ctx context.Context) ([]spec.Port, error) {
	out, err := c.portsOnce(ctx)
	if c.s.Repeatable(err) {
		out, err = c.portsOnce(ctx)
	}
	return out, err
}

func (c *Client) portsOnce(ctx context.Context) ([]spec.Port, error) {
	st, err := c.s.Open(ctx, &wire.Request{Op: wire.OpPorts}, ask.Reads)
	if err != nil {
		return nil, err
	}
	defer st.End()
	var out []spec.Port
	for {
		reply, err := wire.ReadReply(st)
		if err != nil {
			return nil, st.Failed(ctx, err, ask.Reads)
		}
		if len(reply.Ports) == 0 && !reply.Done || len(out)+len(reply.Ports) > wire.MaxPorts {
			return nil, ask.Violation("a list of ports without an end")
		}
		for i := range reply.Ports {
			p, err := reply.Ports[i].Spec()
			if err != nil {
				return nil, &spec.Error{Code: spec.CodeInternal, Err: err}
			}
			out = append(out, p)
		}
		if reply.Done {
			return out, nil
		}
	}
}
