package berth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Auditor keeps records of what is done through a Sandbox; package audit has one that is a
// file. Record is called from many goroutines.
type Auditor interface {
	Record(ctx context.Context, r spec.AuditRecord) error
}

// Audit has everything recorded that changes the place through this Sandbox from now on:
// commands, jobs, terminations, changes of files, its end. A record is made before a thing
// is asked for, and where that fails the thing is not asked for: ErrUnavailable; only an end
// of the place is never held up. Another record says what became of it: for a command that
// Start started, with the first Wait that has an answer. A failure of the second changes no
// result. nil ends the recording.
func (sb *Sandbox) Audit(a Auditor) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.auditor = nil
	if a != nil {
		sb.auditor = &auditing{Auditor: a, client: randomName()}
	}
}

// auditing is an Auditor and the name by which it knows the Sandbox.
type auditing struct {
	Auditor
	client string
}

// action is something that is recorded; nil: nothing is.
type action struct {
	auditor *auditing
	begun   time.Time
	record  spec.AuditRecord
}

// announce records what is about to be asked for. The caller ends the action.
func (sb *Sandbox) announce(ctx context.Context, r spec.AuditRecord) (*action, error) {
	sb.mu.Lock()
	auditor := sb.auditor
	sb.mu.Unlock()
	if auditor == nil {
		return nil, nil
	}
	a := &action{auditor: auditor, begun: time.Now(), record: r}
	a.record.Time, a.record.Action, a.record.Client = a.begun, randomName(), auditor.client
	a.record.Backend, a.record.Sandbox, a.record.Key = sb.driver.Name(), sb.ID(), sb.spec.Key
	if err := auditor.Record(ctx, a.record); err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("nothing was done, as it could not be recorded: %w", err)}
	}
	if used(r.Kind) {
		// The recording may have taken so long that the place was suspended meanwhile.
		sb.sleep.calls.Add(1)
		if err := sb.wake(ctx); err != nil {
			a.end(err, nil)
			return nil, err
		}
	}
	return a, nil
}

// used reports whether something of a kind is asked of the place itself, which has to run.
func used(kind spec.AuditKind) bool {
	switch kind {
	case spec.AuditSuspend, spec.AuditResume, spec.AuditSnapshot, spec.AuditClose, spec.AuditDestroy:
		return false
	}
	return true
}

// end records what became of it; what adds to the record. What was asked stands in the
// first record.
func (a *action) end(err error, what func(r *spec.AuditRecord)) {
	if a == nil {
		return
	}
	r := a.record
	r.Args, r.Env, r.Dir, r.User = nil, nil, "", ""
	r.Time, r.Ended = time.Now(), true
	r.Took, r.Err = r.Time.Sub(a.begun), err
	if what != nil {
		what(&r)
	}
	// What has happened has happened: no ctx ends its record.
	_ = a.auditor.Record(context.Background(), r)
}

// audited does something between its two records.
func (sb *Sandbox) audited(ctx context.Context, r spec.AuditRecord, do func() error) error {
	a, err := sb.announce(ctx, r)
	if err != nil {
		return err
	}
	err = do()
	a.end(err, nil)
	return err
}

// auditCommand is the record of a command, or of a job's.
func auditCommand(kind spec.AuditKind, c *Command) spec.AuditRecord {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.Env)), maps.Keys(c.EnvPaths))
	slices.Sort(names)
	return spec.AuditRecord{
		Kind: kind, Name: c.Key, Args: c.Args, Dir: c.Dir, Env: slices.Compact(names), User: c.User,
	}
}

// ended records how a process ended, once. An error says that only if it is not that of
// the waiting.
func (p *Process) ended(ctx context.Context, exit Exit, err error) {
	if p.action == nil || err != nil && p.life.Err() == nil && ctx.Err() != nil {
		return
	}
	p.told.Do(func() {
		p.action.end(err, func(r *spec.AuditRecord) {
			if r.ID = p.p.ID(); err == nil {
				r.Exit = &exit
			}
		})
	})
}

// change makes a change to the driver's files.
func (f *Files) change(ctx context.Context, r spec.AuditRecord, do func(files.FS) error) error {
	fsys, err := f.fs(ctx)
	if err != nil {
		return err
	}
	return f.sb.audited(ctx, r, func() error { return do(fsys) })
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
