package remoteterm

import (
	"context"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
)

// keyboard is what a viewer has typed. Both sides count it, so that what a lost connection
// has left open is typed once.
type keyboard struct {
	turn   chan struct{} // holds one token: taken by the Write under way, with what follows
	typed  int64         // how much the guest has taken
	unsure bool          // a Write was cut short: the guest knows how much it took
}

// Write implements driver.Terminal.
func (v *viewer) Write(ctx context.Context, p []byte) error {
	if v.life.Err() != nil {
		return v.ended()
	}
	select {
	case v.turn <- struct{}{}:
	case <-v.life.Done():
		return v.ended()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-v.turn }()
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(v.life, cancel)()
	err := v.enter(bound, p)
	if err != nil && ctx.Err() == nil && v.life.Err() != nil {
		return v.ended()
	}
	return err
}

// enter types p after what was typed before.
func (v *viewer) enter(ctx context.Context, p []byte) error {
	if v.unsure {
		taken, err := v.request(ctx, -1, nil)
		if err != nil {
			return err
		}
		v.typed, v.unsure = taken, false
	}
	if len(p) == 0 {
		return nil
	}
	v.unsure = true
	taken, err := v.request(ctx, v.typed, p)
	if err != nil {
		return err
	}
	if taken != v.typed+int64(len(p)) {
		return ask.Violation("%d bytes were typed, and %d taken", v.typed+int64(len(p)), taken)
	}
	v.typed, v.unsure = taken, false
	return nil
}

// request types p from an offset on and returns how much was taken in all then.
func (v *viewer) request(ctx context.Context, offset int64, p []byte) (taken int64, err error) {
	effect := ask.Reads
	if len(p) > 0 { // it is typed once, and where the answer is lost for good nobody knows whether
		effect = ask.Changes
	}
	req := &wire.Request{Op: wire.OpTerminalType, Terminal: &wire.TerminalRequest{ID: v.id, Viewer: v.name, Offset: offset}}
	err = v.c.s.Patiently(ctx, req, effect, func(st ask.Stream) (bool, error) {
		defer st.End()
		if _, err := wire.WriteData(st, p, v.c.s.ChunkBytes()); err != nil {
			return false, err
		}
		if err := wire.WriteEnd(st); err != nil {
			return false, err
		}
		reply, err := wire.ReadReply(st)
		if err == nil && reply.Offset < 0 {
			err = ask.Violation("%d bytes were taken", reply.Offset)
		}
		if err == nil {
			taken = reply.Offset
		}
		return answered(err), err
	})
	return taken, err
}
