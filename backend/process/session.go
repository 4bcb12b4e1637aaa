package process

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/place"
	"github.com/berth-dev/berth/spec"
)

// open makes a session of a connection to the guest of rec. It owns conn. Each time,
// also when it is dialled again, the wall is looked at before anything is said that is
// meant for the inside.
func (b *backend) open(ctx context.Context, root *place.Root, conn net.Conn, rec place.Record, a driver.Authority) (*guest.Session, error) {
	s, err := guest.Open(ctx, b.transport(conn), guest.OpenOptions{
		ID: rec.ID, Caps: inForce(rec), Authority: a, Profile: guest.Local(),
		Writable: rec.Writable, Hidden: rec.Hidden, Limits: rec.Limits, Denied: b.denied(rec),
		Redial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			conn, err := root.Dial(ctx, rec.ID)
			if err != nil {
				return nil, err
			}
			if err := root.Intact(rec); err != nil {
				conn.Close()
				return nil, err
			}
			return b.transport(conn), nil
		},
	})
	if err != nil {
		return nil, err
	}
	// A guest that says hello has its wall round it already.
	if err := root.Intact(rec); err != nil {
		_ = s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// denied is what a command that the wall seems to have refused something should know:
// where it can write, and what widens that. Of our own directories it can use none but
// the workdir.
func (b *backend) denied(rec place.Record) string {
	if rec.Isolation == spec.IsolationNone {
		return ""
	}
	roots := append([]string{rec.Workdir}, slices.DeleteFunc(slices.Clone(rec.Writable), func(dir string) bool {
		return dir == rec.Workdir || strings.HasPrefix(dir, b.o.StateDir+"/")
	})...)
	return fmt.Sprintf("commands can write below %s only; Spec.WritableRoots (--writable DIR) adds a directory", strings.Join(roots, ", "))
}

func (b *backend) transport(conn net.Conn) io.ReadWriteCloser {
	if b.o.Transport == nil {
		return conn
	}
	return b.o.Transport(conn)
}
