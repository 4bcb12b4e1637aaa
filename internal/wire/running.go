package wire

import (
	"math"
	"time"

	"github.com/berth-dev/berth/spec"
)

// TerminateRequest ends the command or job of a key.
type TerminateRequest struct {
	Key string `json:"key"`
	// GraceMS is the time between TERM and KILL; negative: none.
	GraceMS int64 `json:"grace_ms"`
}

// RunningBatch is the most commands in one reply.
const RunningBatch = 256

// Running is spec.Running on the wire.
type Running struct {
	ID            string `json:"id"`
	Key           string `json:"key,omitempty"`
	Job           bool   `json:"job,omitempty"`
	Owner         string `json:"owner,omitempty"`
	Name          Bytes  `json:"name"`
	PID           int    `json:"pid"`
	StartTicks    uint64 `json:"start_ticks"`
	StartedUnixNS int64  `json:"started_unix_ns"`
}

// maxNameBytes bounds a program's name, an id, a key and an owner in a listing.
const maxNameBytes = 256

// Spec checks and converts what a guest said.
func (r *Running) Spec() (spec.Running, error) {
	if r.PID <= 0 || r.PID > math.MaxInt32 || r.StartedUnixNS < 0 || max(len(r.ID), len(r.Key), len(r.Owner), len(r.Name)) > maxNameBytes {
		return spec.Running{}, violation("record of a running command out of range")
	}
	return spec.Running{
		ID: r.ID, Key: r.Key, Job: r.Job, Owner: r.Owner, Name: string(r.Name), PID: r.PID, StartTicks: r.StartTicks, Started: time.Unix(0, r.StartedUnixNS),
	}, nil
}
