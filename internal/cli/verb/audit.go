package verb

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/internal/config"
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
		e.conceal(env[name])
	}
}

func (e *Env) conceal(value string) {
	if value != "" && !slices.Contains(e.concealed, value) {
		e.concealed = append(e.concealed, value)
	}
}

// checkSecrets refuses secrets that would not be taken out of what is recorded: a variable
// that a flag names and nothing sets, and a value of any that is too short.
func checkSecrets(c *config.Config, env map[string]string) error {
	for _, name := range c.NamedSecrets {
		if value, _ := c.Lookup(name); value == "" && env[name] == "" {
			return Usage("--secret %s: there is no such variable, neither in our environment nor by --env, or it is empty", name)
		}
	}
	for _, name := range c.Secrets {
		ours, _ := c.Lookup(name)
		for _, value := range []string{ours, env[name]} {
			if value != "" && !audit.Concealable(value) && (c.Audit || slices.Contains(c.NamedSecrets, name)) {
				return Usage("%w", tooShort(name))
			}
		}
	}
	return nil
}

func tooShort(name string) error {
	return fmt.Errorf("the value of the secret %s is too short to be taken out of what is recorded: it would be found everywhere below %d bytes", name, audit.MinSecretBytes)
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
			if value != "" && !audit.Concealable(value) {
				l.err = tooShort(name)
				return
			}
			l.env.conceal(value)
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
