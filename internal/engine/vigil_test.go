package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Somebody is dead only after the same container has shown the same for long enough; one that
// is gone, or is not told of in time, is not, and what was seen before counts no more.
func TestVigil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10 * time.Second
		var v Vigil
		failed := errors.New("failed")
		for _, step := range []struct {
			what, id, sign string
			slow           time.Duration
			err            error
			dead           bool
		}{
			{what: "first", id: "a", sign: "1"},
			{what: "still", id: "a", sign: "1"},
			{what: "a sign", id: "a", sign: "2"},
			{what: "still 2", id: "a", sign: "2"},
			{what: "an error", err: failed},
			{what: "too long", id: "a", sign: "2", dead: true},
			{what: "another one", id: "b", sign: "2"},
			{what: "gone", err: spec.New(spec.CodeNotFound, "gone")},
			{what: "back", id: "b", sign: "2"},
			{what: "no answer", slow: time.Minute},
			{what: "answers", id: "b", sign: "2"},
		} {
			dead, err := v.Dead(t.Context(), time.Second, most, func(ctx context.Context) (string, string, error) {
				if step.slow > 0 {
					<-ctx.Done()
					return "", "", ctx.Err()
				}
				return step.id, step.sign, step.err
			})
			if dead != step.dead || errors.Is(err, failed) != (step.err == failed) || err != nil && step.err != failed {
				t.Errorf("%s: %v, %v", step.what, dead, err)
			}
			time.Sleep(4 * time.Second)
		}
	})
}
