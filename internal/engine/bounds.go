package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-dev/berth/spec"
)

const (
	// MinMemoryBytes is the smallest memory limit that an engine accepts.
	MinMemoryBytes = 6 << 20
	// MinPIDs is what a guest with its spare threads takes, two relays, and a shell with a
	// program: 28 to 30 where it runs on two CPUs, one more for each of two others.
	MinPIDs = 32
	// minCPUMillis and maxPIDs are the ends of what a kernel does.
	minCPUMillis = 10
	maxPIDs      = 1 << 22
)

// CheckLimits refuses, with CodeInvalid, what an engine would, or would take for something
// else, and what leaves no room for a guest.
func CheckLimits(l spec.Limits) error {
	switch {
	case l.MemoryBytes > 0 && l.MemoryBytes < MinMemoryBytes:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a memory limit of %d bytes is below the least that an engine takes, %d", l.MemoryBytes, MinMemoryBytes))
	case l.CPUMillis > math.MaxInt64/int64(time.Millisecond): // an engine counts in billionths
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a cpu limit of %d millis is too large", l.CPUMillis))
	case l.CPUMillis > 0 && l.CPUMillis < minCPUMillis:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a cpu limit of %d millis is below the least that a kernel takes, %d", l.CPUMillis, minCPUMillis))
	case l.PIDs > 0 && l.PIDs < MinPIDs:
		return &spec.Error{
			Code: spec.CodeInvalid, Err: fmt.Errorf("limit_pids: %d processes are too few for the guest itself and a command, which need %d", l.PIDs, MinPIDs),
			Hint: "the guest's own threads count: ask for more, or for no limit (--pids 0)",
		}
	case l.PIDs > maxPIDs:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("a limit of %d processes is above what a kernel can have, %d", l.PIDs, maxPIDs))
	}
	return nil
}
