package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// action is one thing that is timed.
type action func(ctx context.Context) error

// alternative is a plain way to do what a row does. after, if set, cleans up behind
// each run and is not timed.
type alternative struct {
	name  string
	run   action
	after action
}

// row is one thing that Berth does, and what it is measured against.
type row struct {
	name    string // "exec true"
	backend string // "process"
	ours    action
	after   action // as an alternative's
	against []alternative
	slow    bool // a tenth of the rounds
	large   bool // a fortieth
}

// result is one row against one alternative.
type result struct {
	Name    string  `json:"name"`
	Backend string  `json:"backend"`
	Against string  `json:"against"`
	Ours    float64 `json:"ours_p50_us"`
	Theirs  float64 `json:"against_p50_us"`
	Ratio   float64 `json:"ratio"`
}

// measure runs the row and its alternatives in turn, round after round.
func (r row) measure(ctx context.Context, rounds int) ([]result, error) {
	switch {
	case r.large:
		rounds = max(rounds/40, 3)
	case r.slow:
		rounds = max(rounds/10, 5)
	}
	ways := append([]alternative{{"", r.ours, r.after}}, r.against...)
	times := make([][]time.Duration, len(ways))
	const warmUp = 2
	for round := range rounds + warmUp {
		for i, way := range ways {
			start := time.Now()
			err := way.run(ctx)
			took := time.Since(start)
			if way.after != nil {
				err = errors.Join(err, way.after(context.WithoutCancel(ctx)))
			}
			if err != nil {
				return nil, err
			}
			if round >= warmUp {
				times[i] = append(times[i], took)
			}
		}
	}
	ours := median(times[0])
	var out []result
	for i, a := range r.against {
		theirs := median(times[i+1])
		if theirs == 0 {
			return nil, fmt.Errorf("%s took no time at all", a.name)
		}
		out = append(out, result{r.name, r.backend, a.name, micros(ours), micros(theirs), float64(ours) / float64(theirs)})
	}
	return out, nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
