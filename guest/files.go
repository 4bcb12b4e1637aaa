package guest

import (
	"context"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/remotefs"
	"github.com/berth-dev/berth/internal/wire"
)

// Files implements driver.Session. See package files for the contract; in addition
// the ctx of Open bounds the life of the File that it returns. What it returns has every
// optional interface of package files but Namer.
func (s *Session) Files() files.FS { return remotefs.New(fileSession{s}) }

// fileSession is a Session as its files see it.
type fileSession struct{ s *Session }

// Call implements remotefs.Session.
func (f fileSession) Call(ctx context.Context, req *wire.Request, changes bool) (*wire.Reply, error) {
	return f.s.call(ctx, req, effect(changes))
}

// Open implements remotefs.Session.
func (f fileSession) Open(ctx context.Context, req *wire.Request, changes bool) (remotefs.Stream, error) {
	st, err := f.s.open(ctx, nil, req)
	if err != nil {
		return nil, f.s.failed(ctx, nil, err, effect(changes))
	}
	return asked{st, f.s}, nil
}

// Repeatable implements remotefs.Session.
func (f fileSession) Repeatable(err error) bool { return f.s.repeatable(err, reads) }

// ChunkBytes implements remotefs.Session.
func (f fileSession) ChunkBytes() int { return f.s.o.Profile.ChunkBytes }
