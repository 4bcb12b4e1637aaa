package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// steady is how long a connection has to hold for its loss to be a new one.
const steady = time.Second

// patiently makes a request that may be repeated, and has read take its answer, which
// may be long in coming. If the connection breaks it makes the request again on the
// next one, until none is to be had for as long as the resume window. read owns the
// stream, and says with its error whether that is the answer; what it has changed in
// req is in the next request.
func (s *Session) patiently(ctx context.Context, req *wire.Request, e effect, read func(*stream) (over bool, err error)) error {
	var sent bool
	var lost time.Time // since when the place is out of reach, or breaks off at once
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		st, err := s.open(ctx, nil, req)
		if err == nil {
			var over bool
			if over, err = read(st); over {
				return err
			}
			sent = true
			if time.Since(began) > steady {
				lost, pause = time.Time{}, firstPause
			}
			if ctx.Err() == nil {
				if err = st.c.explain(err); err != errLost { //nolint:errorlint // the bare sentinel
					return err
				}
			}
		} else if err == errLost { //nolint:errorlint // the bare sentinel: it may have been sent
			sent = true
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		unreachable := errors.Is(err, errLost) || spec.CodeOf(err) == spec.CodeUnavailable
		if !unreachable || final(err) || s.o.Redial == nil || time.Since(lost) > max(s.resume, minResume) {
			if !sent || e == reads {
				return s.failed(ctx, nil, err, reads)
			}
			return &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("the place is out of reach: %w", err)}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
