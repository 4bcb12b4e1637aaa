package streamtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/race"
)

// Memory is the resident set of a process, looked at again and again.
type Memory struct {
	first int64
	peak  atomic.Int64
}

// Watch looks at a process of this machine until the test has ended, or it has.
func Watch(t testing.TB, pid int) *Memory {
	t.Helper()
	m := &Memory{}
	m.first = resident(pid)
	m.peak.Store(m.first)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-stop:
				return
			case <-look.C:
				m.peak.Store(max(m.peak.Load(), resident(pid)))
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	return m
}

// Peak is the most that was seen, in bytes, and Growth how much more that is than what
// was seen first.
func (m *Memory) Peak() int64 { return m.peak.Load() }

// Growth is Peak without what there was at first.
func (m *Memory) Growth() int64 { return m.peak.Load() - m.first }

// Flat reports whether it has grown by no more than a stream may cost.
func (m *Memory) Flat() bool { return m.Growth() <= flat*race.MemoryFactor }

// resident is 0 for a process that is gone.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
