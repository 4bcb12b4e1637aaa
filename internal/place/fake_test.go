package place_test

import (
	"flag"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/internal/wire"
"github.com/berth-dev/berth/spec"
)

type fakeAgent struct{}

var agent fakeAgent

func (fakeAgent) Main(args []string) int {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	id := fs.String("id", "", "")
	wd := fs.String("workdir", "", "")
	fd := fs.Int("listen-fd", 0, "")
	fs.String("peer", "", "")
	eph := fs.Bool("ephemeral", false, "")
	orphan := fs.Duration("orphan-after", 30*time.Second, "")
	fs.Duration("resume", 0, "")
	fs.Duration("idle", 0, "")
	fs.Duration("ttl", 0, "")
	fs.String("notice", "", "")
	if err := fs.Parse(args[1:]); err != nil {
		return 2
	}
	l, err := net.FileListener(os.NewFile(uintptr(*fd), "l"))
	if err != nil {
		return 3
	}
	var epoch atomic.Uint64
	var n atomic.Int32
	for {
		c, err := l.Accept()
		if err != nil {
			return 4
		}
		n.Add(1)
		go func() {
			defer func() {
				if n.Add(-1) == 0 && *eph {
					time.AfterFunc(*orphan, func() { if n.Load() == 0 { os.Exit(0) } })
				}
			}()
			h, err := wire.AcceptHello(c, func(h *wire.HostHello) (*wire.GuestHello, error) {
				if h.Epoch < epoch.Load() {
					return nil, stale
				}
				epoch.Store(h.Epoch)
				return &wire.GuestHello{ID: *id, Workdir: []byte(*wd)}, nil
			})
			if err != nil {
				return
			}
			m, _ := wire.GuestMux(c, h.Profile)
			for {
				st, err := m.Accept()
				if err != nil {
					return
				}
				var req wire.Request
				_ = wire.ReadMessage(st, &req, 0)
				if req.Op == wire.OpShutdown {
					os.Exit(0)
				}
			}
		}()
	}
}
var stale = spec.New(spec.CodeStaleOwner, "x")
