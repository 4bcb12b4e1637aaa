package guest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Session is one client's hold on a guest. It implements driver.Session, driver.Pinger
// and driver.Jobber. Open makes it; the zero value is not usable.
//
// After Close every operation answers CodeInvalid, after Shutdown CodeNotFound.
type Session struct {
	o       OpenOptions
	id      string
	guestID string // what every hello must say
	client  string // random; the same in every hello of this session
	caps    spec.Caps
	minor   int // of the guest's protocol
	resume  time.Duration

	// alive ends with Close: it bounds redials and everything that a command
	// does in the background.
	alive context.Context
	end   context.CancelFunc

	mu       sync.Mutex
	conn     *conn   // the latest; it may be gone
	flight   *flight // the redial under way, if any
	over     error   // what operations answer once the session or the place has ended
	closing  bool
	closed   chan struct{} // closed when Close has done its work
	closeErr error
}

var (
	_ driver.Session = (*Session)(nil)
	_ driver.Pinger  = (*Session)(nil)
)

// ID implements driver.Session.
func (s *Session) ID() string { return s.id }

// Caps implements driver.Session. It is what the guest said when it was opened.
func (s *Session) Caps() spec.Caps { return s.caps }

// Ping implements driver.Pinger: one request to the guest and its reply.
func (s *Session) Ping(ctx context.Context) error {
	_, err := s.call(ctx, &wire.Request{Op: wire.OpPing}, reads)
	return err
}

// The most that is taken of a guest's texts.
const (
	maxVersionBytes = 256
	maxNoticeBytes  = 4096
)

// Status implements driver.Session.
func (s *Session) Status(ctx context.Context) (spec.Status, error) {
	reply, err := s.call(ctx, &wire.Request{Op: wire.OpStatus}, reads)
	if err != nil {
		return spec.Status{}, err
	}
	st := reply.Status
	if st == nil {
		return spec.Status{}, violation("a status reply without a status")
	}
	return spec.Status{
		State:        spec.StateRunning,
		Started:      time.Unix(0, st.StartedUnixNS),
		Uptime:       max(time.Duration(st.UptimeNS), 0),
		Clients:      max(st.Clients, 0),
		Commands:     max(st.Commands, 0),
		IdleIn:       time.Duration(st.IdleInNS),
		ExpiresIn:    time.Duration(st.ExpiresInNS),
		GuestVersion: clip(st.Version, maxVersionBytes),
		Notice:       clip(st.Notice, maxNoticeBytes),
		Writable:     slices.Clone(s.o.Writable),
		Hidden:       slices.Clone(s.o.Hidden),
		Limits:       s.o.Limits,
		UnusedFor:    max(time.Duration(st.UnusedNS), 0),

		MemoryBytes: max(st.MemoryBytes, 0), MemoryPeakBytes: max(st.MemoryPeakBytes, 0), OOMKills: max(st.OOMKills, 0),
	}, nil
}

func clip(s string, most int) string {
	if len(s) > most {
		return s[:most]
	}
	return s
}
