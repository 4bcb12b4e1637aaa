package process

import (
	"context"
	"io"
	"net"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/place"
)

// open makes a session of a connection to the guest of rec. It owns conn.
func (b *backend) open(ctx context.Context, root *place.Root, conn net.Conn, rec place.Record, a driver.Authority) (*guest.Session, error) {
	return guest.Open(ctx, b.transport(conn), guest.OpenOptions{
		ID: rec.ID, Caps: inForce(rec.Isolation, rec.Network), Authority: a, Profile: guest.Local(),
		Redial: func(ctx context.Context) (io.ReadWriteCloser, error) {
			conn, err := root.Dial(ctx, rec.ID)
			if err != nil {
				return nil, err
			}
			return b.transport(conn), nil
		},
	})
}

func (b *backend) transport(conn net.Conn) io.ReadWriteCloser {
	if b.o.Transport == nil {
		return conn
	}
	return b.o.Transport(conn)
}
