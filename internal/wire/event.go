package wire

import (
	"math"
	"time"

	"github.com/berth-dev/berth/spec"
)

// OpEvents asks for what happened to the place, and with Follow for what happens: a
// reply{events}, then EventBatches. Since 1.3.
const OpEvents Op = "events"

// EventsRequest selects events.
type EventsRequest struct {
	After  int64 `json:"after,omitempty"`
	Follow bool  `json:"follow,omitempty"`
	// Life is the one of the guest in which After was counted; "": the present one.
	Life string `json:"life,omitempty"`
}

// EventsInfo says which events follow.
type EventsInfo struct {
	// Life names this life of the guest.
	Life string `json:"life"`
	// After is the request's, or 0 where that is of an earlier life, Last the latest
	// event: what does not follow ends with it.
	After int64 `json:"after"`
	Last  int64 `json:"last"`
}

// maxLifeBytes bounds the name of a life.
const maxLifeBytes = 64

// Check refuses what no guest answers to r.
func (i *EventsInfo) Check(r *EventsRequest) error {
	same := i.After == r.After
	if i.Life == "" || len(i.Life) > maxLifeBytes || !same && (i.After != 0 || i.Life == r.Life) || i.Last < i.After {
		return violation("events of %.64q from %d to %d", i.Life, i.After, i.Last)
	}
	return nil
}

// EventBatch is some events, the last ones of the stream with Done, or why there are no
// more.
type EventBatch struct {
	Events []PlaceEvent `json:"events,omitempty"`
	Done   bool         `json:"done,omitempty"`
	Err    *Error       `json:"err,omitempty"`
}

// The bounds of one batch, and of the arguments in one event.
const (
	MaxEventBatch      = 128
	MaxEventBatchBytes = 1 << 20
	MaxEventArgs       = 128
	MaxEventArgBytes   = 4 << 10
)

// PlaceEvent is spec.Event on the wire.
type PlaceEvent struct {
	Seq        int64   `json:"seq"`
	TimeUnixNS int64   `json:"time_unix_ns"`
	Kind       string  `json:"kind"`
	Client     string  `json:"client,omitempty"`
	ID         string  `json:"id,omitempty"`
	Key        string  `json:"key,omitempty"`
	Owner      string  `json:"owner,omitempty"`
	Args       []Bytes `json:"args,omitempty"`
	PID        int     `json:"pid,omitempty"`
	Exit       *Exit   `json:"exit,omitempty"`
	Path       Bytes   `json:"path,omitempty"`
	OldPath    Bytes   `json:"old_path,omitempty"`
	Address    string  `json:"address,omitempty"`
	Ended      bool    `json:"ended,omitempty"`
	Count      int64   `json:"count,omitempty"`
	Reason     string  `json:"reason,omitempty"`
}

// EventArgs is what an event holds of args: all, or their beginning.
func EventArgs(args []Bytes) []Bytes {
	left := MaxEventArgBytes
	for i, a := range args {
		if i == MaxEventArgs || left == 0 {
			return args[:i:i]
		}
		if len(a) > left {
			cut := append(args[:i:i], append(Bytes(nil), a[:left]...))
			return cut
		}
		left -= len(a)
	}
	return args
}

// MaxEventText bounds the short texts of an event: names, a reason, an address.
const MaxEventText = 512

// Spec checks and converts what a guest said. A kind that this side does not know is no
// error as long as it is a word: newer guests have more of them.
func (e *PlaceEvent) Spec() (spec.Event, error) {
	total := 0
	var args []string
	for _, a := range e.Args {
		args = append(args, string(a))
		total += len(a)
	}
	if e.Seq < 1 || e.TimeUnixNS < 0 || e.Kind == "" || !word(e.Kind) || e.PID < 0 || e.PID > math.MaxInt32 || e.Count < 0 ||
		max(len(e.Client), len(e.ID), len(e.Key), len(e.Owner), len(e.Address), len(e.Reason)) > MaxEventText ||
		len(args) > MaxEventArgs || total > MaxEventArgBytes || max(len(e.Path), len(e.OldPath)) > spec.MaxPathBytes {
		return spec.Event{}, violation("event %d, %.64q, out of range", e.Seq, e.Kind)
	}
	out := spec.Event{
		Seq: e.Seq, Time: time.Unix(0, e.TimeUnixNS), Kind: spec.EventKind(e.Kind), Client: e.Client, ID: e.ID, Key: e.Key, Owner: e.Owner,
		Args: args, PID: e.PID, Path: string(e.Path), OldPath: string(e.OldPath), Address: e.Address, Ended: e.Ended, Count: e.Count, Reason: e.Reason,
	}
	ended := out.Kind == spec.EventCommandEnded
	switch {
	case ended && e.Exit == nil, out.Kind == spec.EventMissed && (e.Count < 1 || e.Count > e.Seq):
		return spec.Event{}, violation("event %d, %s, lacks what belongs to it", e.Seq, e.Kind)
	case e.Exit != nil:
		exit, err := e.Exit.Spec()
		if err != nil {
			return spec.Event{}, err
		}
		out.Exit = &exit
	}
	return out, nil
}
