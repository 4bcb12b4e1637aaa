package verb

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/spec"
)

// AuditFile is where it is recorded what is done to a sandbox of a backend; "": nowhere.
func (e *Env) AuditFile(backend string, key spec.Key) string {
	if e.Config.StateDir == "" || key == "" {
		return ""
	}
	return filepath.Join(e.Config.StateDir, "audit", backend, e.Config.Owner, string(key)+".jsonl")
}

// Auditor returns what records what is done to a sandbox; nil where the setting audit says
// that nothing is, or there is nowhere to put it. The log is made by its first record.
func (e *Env) Auditor(backend string, key spec.Key) berth.Auditor {
	path := e.AuditFile(backend, key)
	if path == "" || !e.Config.Audit {
		return nil
	}
	l := &auditLog{env: e, path: path}
	e.closers = append(e.closers, l.close)
	return l
}

// Audit has recorded what is done through sb.
func (e *Env) Audit(sb *berth.Sandbox, backend string) { sb.Audit(e.Auditor(backend, sb.Key())) }

// Conceal has the values of secret variables among env taken out of what is recorded.
func (e *Env) Conceal(env map[string]string) {
	for _, name := range e.Config.Secrets {
		e.conceal(name, env[name])
	}
}

func (e *Env) conceal(name, value string) {
	switch {
	case value == "" || slices.Contains(e.concealed, value):
	case len(value) < audit.MinSecretBytes:
		e.Note("the value of %s is too short to be taken out of what is recorded", name)
	default:
		e.concealed = append(e.concealed, value)
	}
}

// Close closes the logs of the verb.
func (e *Env) Close() {
	for _, f := range e.closers {
		f()
	}
}

// auditLog is a log that is opened when it is needed.
type auditLog struct {
	env  *Env
	path string

	once sync.Once
	log  *audit.Log
	err  error
}

// Record implements berth.Auditor.
func (l *auditLog) Record(ctx context.Context, r spec.AuditRecord) error {
	l.once.Do(func() {
		for _, name := range l.env.Config.Secrets {
			value, _ := l.env.Config.Lookup(name)
			l.env.conceal(name, value)
		}
		l.log, l.err = audit.Open(l.path, audit.Options{Secrets: l.env.concealed})
	})
	if l.err != nil {
		return l.err
	}
	return l.log.Record(ctx, r)
}

func (l *auditLog) close() {
	l.once.Do(func() {})
	if l.log != nil {
		l.log.Close()
	}
}
