package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/guest/internal/outage"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// patiently makes a request that may be repeated, and has read take its answer, which
// may be long in coming. If the connection breaks it makes the request again on the
// next one, until none is to be had, or none that holds, for as long as the resume
// window. read owns the stream, and says with its error whether that is the answer;
// what it has changed in req is in the next request.
func (s *Session) patiently(ctx context.Context, req *wire.Request, e effect, read func(*stream) (over bool, err error)) error {
	var sent bool
	var out outage.Outage
	for {
		if err := out.Pause(ctx); err != nil {
			return err
		}
		st, err := s.open(ctx, nil, req)
		if err == nil {
			began := time.Now()
			var over bool
			if over, err = read(st); over {
				return err
			}
			sent = true
			if ctx.Err() == nil {
				if err = st.c.explain(err); err != errLost { //nolint:errorlint // the bare sentinel
					return err
				}
			}
			out.Broke(began, false)
		} else {
			sent = sent || err == errLost //nolint:errorlint // the bare sentinel: it may have been sent
			out.Failed()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		unreachable := errors.Is(err, errLost) || spec.CodeOf(err) == spec.CodeUnavailable
		if !unreachable || final(err) || s.o.Redial == nil || out.Over(s.resume) {
			if !sent || e == reads {
				return s.failed(ctx, nil, err, reads)
			}
			return &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("the place is out of reach: %w", err)}
		}
	}
}
