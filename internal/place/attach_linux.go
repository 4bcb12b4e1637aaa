package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/internal/procstat"
	"github.com/berth-dev/berth/spec"
)

// Attach connects to the place under key if its guest runs; it starts nothing. A place
// that is missing, stopped or not ours is CodeNotFound.
func (r *Root) Attach(ctx context.Context, key spec.Key) (net.Conn, Record, error) {
	rec, err := r.find(ID(r.Owner, key))
	if err != nil {
		return nil, Record{}, err
	}
	conn, err := r.dial(ctx, rec)
	return conn, *rec, err
}

// Dial connects again to a place by its id, under the same conditions as Attach.
func (r *Root) Dial(ctx context.Context, id string) (net.Conn, error) {
	if !validID(id) {
		return nil, notFound("no sandbox has the id " + fmt.Sprintf("%.64q", id))
	}
	rec, err := r.find(id)
	if err != nil {
		return nil, err
	}
	return r.dial(ctx, rec)
}

// find loads the record of a place of ours that runs.
func (r *Root) find(id string) (*Record, error) {
	if err := r.trusted(); err != nil {
		return nil, err
	}
	rec, err := r.load(id)
	switch {
	case err != nil:
		return nil, err
	case rec == nil || rec.Owner != r.Owner:
		return nil, notFound("no such sandbox")
	case !r.running(rec):
		return nil, notFound("the sandbox is stopped")
	}
	return rec, nil
}

// dial connects to a place whose guest runs. One that takes no connection is ending.
func (r *Root) dial(ctx context.Context, rec *Record) (net.Conn, error) {
	dir, err := openDir(r.dirOf(rec.ID))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, notFound("the sandbox is gone")
	case err != nil:
		return nil, hostError(err)
	}
	defer dir.Close()
	conn, err := connect(ctx, dir)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case spec.CodeOf(err) == spec.CodePermission:
		return nil, err
	case !r.running(rec):
		return nil, notFound("the sandbox has stopped")
	}
	return nil, &spec.Error{Code: spec.CodeUnavailable, ID: rec.ID, Err: fmt.Errorf("the guest takes no connection: %w", err)}
}

func notFound(text string) error { return spec.New(spec.CodeNotFound, text) }

// running reports whether the guest of rec is alive, or may be: what cannot be told, by a
// host without descriptors, is not taken for dead. One whose pid means nothing here, or that
// /proc hides, is asked.
func (r *Root) running(rec *Record) bool {
	if rec.PID == 0 {
		return false
	}
	boot, err := bootID()
	switch {
	case err != nil:
		return true
	case boot != rec.BootID:
		return false
	case rec.foreign():
		return r.answers(context.Background(), rec.ID)
	}
	runs, err := proc{rec.PID, rec.StartTicks}.runs()
	if errors.Is(err, procstat.ErrHidden) {
		return r.answers(context.Background(), rec.ID)
	}
	return runs || err != nil
}

// answers reports whether the guest of a place takes connections. Only a socket that is
// not there, or that nobody listens on, is a no.
func (r *Root) answers(ctx context.Context, id string) bool {
	dir, err := openDir(r.dirOf(id))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer dir.Close()
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, err := connect(ctx, dir)
	if err == nil {
		conn.Close()
	}
	return err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED)
}

// Owned lists the places of this owner, by key. A record that cannot be read, or that
// is another owner's, is passed over and left alone. What a place without a key has
// left behind is removed on the way.
func (r *Root) Owned(ctx context.Context) ([]spec.Owned, error) {
	if err := r.trusted(); err != nil {
		return nil, err
	}
	ids, err := r.ids()
	if err != nil {
		return nil, err
	}
	out := []spec.Owned{}
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rec, err := r.load(id)
		if err != nil || rec == nil || rec.Owner != r.Owner {
			continue
		}
		state := spec.StateStopped
		if r.running(rec) {
			state = spec.StateRunning
		} else if rec.Ephemeral {
			r.sweepOne(ctx, id)
			continue
		} else {
			r.tidy(rec)
		}
		out = append(out, spec.Owned{
			Key: rec.Key, ID: rec.ID, State: state, Ephemeral: rec.Ephemeral, Workdir: rec.Workdir, Isolation: rec.Isolation,
			Created: rec.Created, IdleTimeout: rec.IdleTimeout, TTL: rec.TTL,
		})
	}
	slices.SortFunc(out, func(a, b spec.Owned) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return out, nil
}

// ids lists the directories that places can have.
func (r *Root) ids() ([]string, error) {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError(err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && validID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// sweep removes what dead places without a key have left behind, but not from except.
func (r *Root) sweep(ctx context.Context, except string) {
	ids, err := r.ids()
	if err != nil {
		return
	}
	for _, id := range ids {
		rec, err := r.load(id)
		if err != nil || id == except {
			continue
		}
		if rec == nil || (rec.Owner == r.Owner && rec.Ephemeral && !r.running(rec)) {
			r.sweepOne(ctx, id)
		}
	}
}

// sweepOne removes the place if, under its lock, it is still ours, without a key, and
// dead. One that is locked is being made or removed by somebody who sees to it.
func (r *Root) sweepOne(ctx context.Context, id string) {
	l, err := r.tryLock(id)
	if err != nil {
		return
	}
	rec, err := r.load(id)
	if err == nil && rec == nil {
		r.removeEmpty(id)
		l.unlockAndForget()
		return
	}
	if err != nil || rec.Owner != r.Owner || !rec.Ephemeral || r.running(rec) {
		l.unlock()
		return
	}
	_ = r.finish(ctx, l, id, rec, EndOptions{Guard: Guard{Epoch: rec.Epoch}}, r.remove)
}
