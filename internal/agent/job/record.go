//go:build linux

package job

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// record is what is kept of a job, on disk as in memory.
type record struct {
	wire.Job

	// Request is the id of the request that started it, which By, the owner at the
	// start, may repeat: it is the same job. Key is the command's, which the owner
	// may repeat.
	Request string `json:"request"`
	Key     string `json:"key,omitempty"`
	By      string `json:"by,omitempty"`
	// Former are the latest owners that have handed it over: what they wait for
	// goes on.
	Former []string `json:"former,omitempty"`
	// Kept marks the kept output of a command, which is listed once it has ended
	// and of which nobody is told.
	Kept bool `json:"kept,omitempty"`

	StallMS     int64 `json:"stall_ms,omitempty"`
	MaxLogBytes int64 `json:"max_log_bytes"`

	// Terminated, a spec.KillOutcome or "", is what was answered to whoever has asked
	// for its end by its key.
	Terminated string `json:"terminated,omitempty"`

	// Told says that the owner knows of the end; Stall is one that it does not
	// know of, Stalls how many there have been.
	Told   bool   `json:"told,omitempty"`
	Stall  *stall `json:"stall,omitempty"`
	Stalls int64  `json:"stalls,omitempty"`
}

// stall is a silence that the owner is to be told of, and what the job was then.
type stall struct {
	NS      int64 `json:"ns"`
	Lines   int64 `json:"lines"`
	Bytes   int64 `json:"bytes"`
	Omitted int64 `json:"omitted"`
}

// maxRecordBytes bounds what is read of a record's file.
const maxRecordBytes = 128 << 10

var errRecord = errors.New("the record contradicts itself")

// parse reads a record of the job with an id. It refuses what this package would not
// have written, with errRecord.
func parse(id string, data []byte) (*record, error) {
	r := new(record)
	if json.Unmarshal(data, r) != nil {
		return nil, errRecord
	}
	if _, err := r.Job.Spec(); err != nil {
		return nil, errRecord
	}
	if r.ID != id || len(r.Request) > maxNameBytes || len(r.Key) > spec.MaxKeyBytes || spec.ValidateOwner(r.By) != nil ||
		r.StallMS < 0 || r.StallMS > spec.MaxTimeout.Milliseconds() || r.MaxLogBytes < 0 || r.MaxLogBytes > spec.MaxLogBytes || r.LogBytes > r.MaxLogBytes ||
		!slices.Contains([]spec.KillOutcome{spec.KillNone, spec.KillTerminated, spec.KillExited, spec.KillUnknown}, spec.KillOutcome(r.Terminated)) ||
		r.Stalls < 0 || r.Stall != nil && !r.Stall.valid() ||
		len(r.Former) > maxFormer || slices.ContainsFunc(r.Former, func(owner string) bool { return spec.ValidateOwner(owner) != nil }) {
		return nil, errRecord
	}
	return r, nil
}

func (s *stall) valid() bool {
	return min(s.NS, s.Lines, s.Bytes, s.Omitted) >= 0 && s.Lines <= s.Bytes && s.Bytes <= spec.MaxLogBytes
}

// maxNameBytes bounds the id of a request, maxFormer how many former owners are known.
const (
	maxNameBytes = 256
	maxFormer    = 16
)

// handOver gives the job to another owner.
func (r *record) handOver(to string) {
	r.Former = append(r.Former, r.Owner)
	r.Former = r.Former[max(len(r.Former)-maxFormer, 0):]
	r.Owner = to
}

func (r *record) running() bool { return r.State == string(spec.JobRunning) }

// lose makes the record of a job whose guest has died what is known of it.
func (r *record) lose(now time.Time) {
	r.State, r.EndedUnixNS, r.Exit = string(spec.JobLost), max(now.UnixNano(), 1), nil
}

func (r *record) encode() ([]byte, error) { return json.Marshal(r) }
