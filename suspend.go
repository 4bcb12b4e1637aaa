package berth

import (
	"context"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Suspend freezes the place with its processes: it uses no CPU and keeps its memory. What
// is asked of it then waits, here and in other clients, until it goes on; the time of a
// Command's Timeout runs on. Attach, Provision and Resume let it go on. One that is
// suspended is no error, one that does not run ErrNotFound. A Sandbox that never started
// means the place that has its key, and starts nothing.
func (sb *Sandbox) Suspend(ctx context.Context) error {
	return sb.suspender(ctx, "suspend", spec.AuditSuspend, driver.Suspender.Suspend)
}

// Resume lets a suspended place go on, as Suspend says. One that runs is no error.
func (sb *Sandbox) Resume(ctx context.Context) error {
	return sb.suspender(ctx, "resume", spec.AuditResume, driver.Suspender.Resume)
}

func (sb *Sandbox) suspender(ctx context.Context, op string, kind spec.AuditKind, do func(driver.Suspender, context.Context, Key, ReapOptions) error) error {
	s, ok := sb.driver.(driver.Suspender)
	if !ok {
		return sb.wrap(spec.New(spec.CodeUnsupported, "places of this backend cannot be suspended"), op, "")
	}
	key, err := sb.liveKey(ctx)
	if err == nil {
		err = sb.audited(ctx, spec.AuditRecord{Kind: kind}, func() error { return do(s, ctx, key, ReapOptions{Authority: sb.options.Authority}) })
	}
	return sb.wrap(err, op, "")
}

// liveKey is the key by which the driver knows the place, which need not have started here.
func (sb *Sandbox) liveKey(ctx context.Context) (Key, error) {
	sb.mu.Lock()
	fate := sb.fate
	sb.mu.Unlock()
	if fate != alive {
		return "", fate.err()
	}
	if sb.spec.Key != "" {
		return sb.spec.Key, spec.ValidateKey(sb.spec.Key)
	}
	session := sb.started()
	if session == nil {
		return "", spec.New(spec.CodeNotFound, "the sandbox has not started, and has no key")
	}
	key, err := sb.placeKey(ctx, session, closed)
	if err == nil && key == "" {
		err = spec.New(spec.CodeNotFound, "the sandbox is gone")
	}
	return key, err
}
