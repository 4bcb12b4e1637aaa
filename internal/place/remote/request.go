package remote

import (
	"time"

	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// The verbs of the far side: `berth-guest place <verb> [--dir DIR]`. Each reads one
// Request and answers with one Answer, as message frames on the standard streams.
const (
	VerbConnect = "connect" // provision, attach or dial; then the streams are the guest's
	VerbList    = "list"
	VerbReap    = "reap"
	VerbStop    = "stop"
)

// maxAnswerBytes bounds an answer of the far side.
const maxAnswerBytes = 1 << 20

// Mode says what a connect may do.
type Mode string

// The modes of a connect.
const (
	ModeProvision Mode = "provision" // make, start or adopt the place of Spec
	ModeAttach    Mode = "attach"    // only if the place under Key runs
	ModeDial      Mode = "dial"      // again, by ID
)

// Request is what the near side asks of the far side.
type Request struct {
	Owner string   `json:"owner"`
	Mode  Mode     `json:"mode,omitempty"` // of a connect
	Key   spec.Key `json:"key,omitempty"`  // for attach, reap and stop
	ID    string   `json:"id,omitempty"`   // for dial

	// Spec is the one to provision, resolved. What may be no UTF-8 travels
	// beside it; SetSpec and TakeSpec put the two together.
	Spec    *spec.Spec            `json:"spec,omitempty"`
	Env     map[string]wire.Bytes `json:"env,omitempty"`
	Workdir wire.Bytes            `json:"workdir,omitempty"`
	Root    wire.Bytes            `json:"workspace_root,omitempty"`

	Replace       bool   `json:"replace,omitempty"`
	OrphanAfterMS int64  `json:"orphan_after_ms,omitempty"`
	ResumeMS      int64  `json:"resume_ms,omitempty"`
	GraceMS       int64  `json:"grace_ms,omitempty"`
	Epoch         uint64 `json:"epoch,omitempty"`
	Notice        string `json:"notice,omitempty"`
}

// SetSpec puts s into the request.
func (r *Request) SetSpec(s *spec.Spec) {
	r.Spec = s.Clone()
	r.Workdir, r.Spec.Workdir = wire.Bytes(s.Workdir), ""
	r.Root, r.Spec.WorkspaceRoot = wire.Bytes(s.WorkspaceRoot), ""
	r.Env, r.Spec.Env = make(map[string]wire.Bytes, len(s.Env)), nil
	for name, value := range s.Env {
		r.Env[name] = wire.Bytes(value)
	}
}

// TakeSpec returns the spec of the request, or CodeInvalid.
func (r *Request) TakeSpec() (*spec.Spec, error) {
	if r.Spec == nil {
		return nil, spec.New(spec.CodeInvalid, "the request holds no spec")
	}
	s := r.Spec.Clone()
	s.Workdir, s.WorkspaceRoot = string(r.Workdir), string(r.Root)
	s.Env = make(map[string]string, len(r.Env))
	for name, value := range r.Env {
		s.Env[name] = string(value)
	}
	return s, s.Validate()
}

func (r *Request) provisionOptions() place.ProvisionOptions {
	return place.ProvisionOptions{
		Replace: r.Replace, OrphanAfter: ms(r.OrphanAfterMS), Resume: ms(r.ResumeMS), Notice: r.Notice, Guard: place.Guard{Epoch: r.Epoch},
	}
}

func (r *Request) endOptions() place.EndOptions {
	return place.EndOptions{Grace: ms(r.GraceMS), Guard: place.Guard{Epoch: r.Epoch}}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Answer is what the far side says: Err, or what belongs to the verb.
type Answer struct {
	Err    *wire.Error   `json:"err,omitempty"`
	Record *place.Record `json:"record,omitempty"` // of a connect; absent in mode dial
	Owned  []spec.Owned  `json:"owned,omitempty"`  // of a list
}

// ReadAnswer reads the far side's answer, as the near side does. The error of the far
// side is returned as a *spec.Error.
func ReadAnswer(r interface{ Read([]byte) (int, error) }) (*Answer, error) {
	var a Answer
	if err := wire.ReadMessage(r, &a, maxAnswerBytes); err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	if a.Err != nil {
		return nil, a.Err.Spec()
	}
	return &a, nil
}
