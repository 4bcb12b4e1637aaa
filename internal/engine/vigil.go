package engine

import (
	"context"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Vigil is what was seen of a container by which somebody else holds something, and since
// when it has been so. The zero value has seen nothing. One goroutine at a time uses it.
type Vigil struct {
	ID string // of the container; "": there was none

	sign  string
	since time.Time
}

// Dead reports whether the container has shown no sign of life for longer than most: look
// returns its id and what changes while its owner lives, and both have been the same. Where
// it is gone, or look is not answered within patience, nobody seems dead.
func (v *Vigil) Dead(ctx context.Context, patience, most time.Duration, look func(ctx context.Context) (id, sign string, err error)) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := time.Now()
	id, sign, err := look(bounded)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound, bounded.Err() != nil && ctx.Err() == nil:
		*v = Vigil{}
		return false, nil
	case err != nil:
		return false, err
	case id != v.ID || sign != v.sign:
		*v = Vigil{id, sign, now}
		return false, nil
	}
	return time.Since(v.since) > most, nil
}
