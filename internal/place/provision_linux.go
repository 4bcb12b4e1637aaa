package place

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Provision connects to the place of s, which it makes, or starts if it is stopped. s
// is valid and its defaults are resolved. A spec without a key gets a generated one
// and an ephemeral place.
//
// The connection is open, and the guest may still be starting: if it dies before it
// says anything, Read returns CodeUnavailable with the end of its log. An error leaves
// nothing that was not there before. After a nil error a caller that cannot use the
// place calls Discard.
func (r *Root) Provision(ctx context.Context, s *spec.Spec, o ProvisionOptions) (net.Conn, Record, error) {
	if err := r.trusted(); err != nil {
		return nil, Record{}, err
	}
	want := r.record(s)
	if s.Key != "" {
		if rec, err := r.load(want.ID); err == nil && rec != nil {
			conn, err := r.adopt(ctx, rec, &want, o)
			if conn != nil || err != nil {
				return conn, *rec, err
			}
		}
	}
	if err := r.prepare(); err != nil {
		return nil, Record{}, err
	}
	l, err := r.lock(ctx, want.ID)
	if err != nil {
		return nil, Record{}, err
	}
	conn, rec, err := r.provisionLocked(ctx, s, want, o)
	if err != nil && rec.Fresh {
		l.unlockAndForget()
		return nil, Record{}, err
	}
	l.unlock()
	if err != nil {
		return nil, Record{}, err
	}
	if rec.Fresh {
		r.sweep(ctx, rec.ID) // while the guest starts
	}
	return conn, rec, nil
}

// record says what the place of s is to be.
func (r *Root) record(s *spec.Spec) Record {
	key, ephemeral := s.Key, s.Key == ""
	if ephemeral {
		var random [6]byte
		_, _ = rand.Read(random[:]) // never fails
		key = spec.Key("tmp-" + hex.EncodeToString(random[:]))
	}
	rec := Record{
		ID: ID(r.Owner, key), Key: key, Owner: r.Owner, SpecHash: s.Hash(), SpecParts: s.Parts(), Ephemeral: ephemeral,
		Workdir: s.Workdir, Isolation: s.Isolation, Network: s.Network, Created: time.Now().UTC(),
		IdleTimeout: s.IdleTimeout, TTL: s.TTL, Limits: s.Limits,
	}
	if rec.Workdir == "" {
		rec.Workdir, rec.OwnWorkdir = filepath.Join(r.dirOf(rec.ID), workspaceName), true
	}
	return rec
}

// adopt connects to a place that exists. It returns nothing if the place must be
// started, or replaced, under the lock.
func (r *Root) adopt(ctx context.Context, rec, want *Record, o ProvisionOptions) (net.Conn, error) {
	if rec.Owner != want.Owner {
		return nil, &spec.Error{Code: spec.CodeExists, ID: rec.ID, Err: errors.New("the sandbox belongs to another owner")}
	}
	if rec.SpecHash != want.SpecHash {
		if o.Replace {
			return nil, nil
		}
		return nil, mismatch(rec, want)
	}
	if !r.running(rec) {
		return nil, nil
	}
	conn, err := r.dial(ctx, rec)
	if err != nil && ctx.Err() == nil {
		return nil, nil // it runs and takes no connection: it is ending
	}
	return conn, err
}

// mismatch says in which fields the place that exists is another than the one that is
// wanted, and what it has where the record knows.
func mismatch(rec, want *Record) error {
	differ := "another spec"
	if rec.SpecParts != nil {
		var fields []string
		for _, name := range spec.DifferingParts(rec.SpecParts, want.SpecParts) {
			switch name {
			case "workdir":
				name = fmt.Sprintf("workdir (there %q)", rec.Workdir)
			case "isolation":
				name = fmt.Sprintf("isolation (there %s)", rec.Isolation)
			case "network":
				name = fmt.Sprintf("network (there %s)", rec.Network)
			}
			fields = append(fields, name)
		}
		differ += ": " + strings.Join(fields, ", ")
	}
	return &spec.Error{
		Code: spec.CodeSpecMismatch, ID: rec.ID, Err: fmt.Errorf("sandbox %q exists with %s", string(rec.Key), differ),
		Hint: "take another key, or ask for the same; `berth exec` uses it as it is; Replace (--replace) ends it and makes a new one",
	}
}

// provisionLocked makes, starts or adopts a place. If it fails, the record that it
// returns is Fresh where it had made the directory and has removed it again.
func (r *Root) provisionLocked(ctx context.Context, s *spec.Spec, want Record, o ProvisionOptions) (net.Conn, Record, error) {
	rec, err := r.load(want.ID)
	if err != nil && !o.Replace {
		return nil, Record{}, err
	}
	exists := rec != nil || err != nil
	if rec != nil {
		conn, err := r.adopt(ctx, rec, &want, o)
		if conn != nil || err != nil {
			return conn, *rec, err
		}
	}
	if err := o.check(ctx); err != nil {
		return nil, Record{}, err
	}
	if !exists {
		exists = dirExists(r.dirOf(want.ID)) // a removal or a start that was cut short
	}
	same := rec != nil && rec.SpecHash == want.SpecHash
	if exists {
		if err := r.endLocked(ctx, want.ID, rec, EndOptions{Guard: o.Guard}); err != nil {
			return nil, Record{}, err
		}
	}
	if exists && !same {
		if err := r.remove(want.ID); err != nil {
			return nil, Record{}, err
		}
	}
	want.Started = true
	if same {
		want.Created = rec.Created
		conn, err := r.start(ctx, s, &want, o)
		return conn, want, err
	}
	want.Fresh = true
	if err := os.Mkdir(r.dirOf(want.ID), 0o700); err != nil {
		return nil, Record{}, hostError(err)
	}
	conn, err := r.start(ctx, s, &want, o)
	if err != nil {
		_ = r.remove(want.ID) // what cannot be removed is found again by its key
	}
	return conn, want, err
}

func dirExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
