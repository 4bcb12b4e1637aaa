package process

import (
	"context"
	"sync"

	"github.com/berth-dev/berth/internal/cgroup"
	"github.com/berth-dev/berth/spec"
)

// limited remembers that control groups of every kind could be made: trying it makes and
// removes some. It is asked again after a failure.
type limited struct {
	mu  sync.Mutex
	all bool
}

// offer says in c which limits can be had here, and why the others cannot.
func (l *limited) offer(ctx context.Context, c spec.Caps) spec.Caps {
	why := l.probe(ctx)
	for _, limit := range []struct {
		kind cgroup.Kind
		have *bool
	}{{cgroup.Memory, &c.LimitMemory}, {cgroup.PIDs, &c.LimitPIDs}, {cgroup.CPU, &c.LimitCPU}} {
		err := why[limit.kind]
		if *limit.have = err == nil; err == nil {
			continue
		}
		c = c.AddMissing(limit.kind.Cap(), reason(err))
	}
	return c
}

// probe returns why there is no limit of a kind.
func (l *limited) probe(ctx context.Context) map[cgroup.Kind]error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all {
		return nil
	}
	host, err := cgroup.Discover()
	if err != nil {
		return map[cgroup.Kind]error{cgroup.Memory: err, cgroup.PIDs: err, cgroup.CPU: err}
	}
	why := host.Probe(ctx)
	l.all = len(why) == 0
	return why
}

// limits are those that are in force in a place.
func limits(c spec.Caps, l spec.Limits) spec.Caps {
	c.LimitMemory, c.LimitPIDs, c.LimitCPU = l.MemoryBytes > 0, l.PIDs > 0, l.CPUMillis > 0
	return c
}
