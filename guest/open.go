package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/guestbin"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Dialer opens a new stream to the guest of one place. An error with CodeNotFound
// says that the place is gone for good: no further attempt is made.
type Dialer func(ctx context.Context) (io.ReadWriteCloser, error)

// Profile is how the connection is set up for a kind of transport; see Local and
// Network.
type Profile = wire.Profile

// Local is the profile of pipes, sockets and an engine's relayed streams on one
// machine.
func Local() Profile { return wire.Local() }

// Network is the profile of transports that cross a network.
func Network() Profile { return wire.Network() }

// OpenOptions say what a backend knows of the place at the other end. The zero
// value opens a session that a lost connection ends.
type OpenOptions struct {
	// ID is what Session.ID returns. "" takes the guest's own. If set, the
	// guest must have this id; another one is CodeUnavailable.
	ID string
	// Caps is what the backend knows of this place. OS, Arch, Shell, Coreutils,
	// KillTree, CommandUser and Resume are filled from the guest's hello; Jobs
	// holds only for a guest that runs some.
	Caps spec.Caps
	// Writable and Hidden are what Status says of the place's wall.
	Writable, Hidden []string
	// Limits are those that the backend has seen to be in force, for Status.
	Limits spec.Limits
	// Denied is the Exit.Hint of a command that failed and reads as if the place's
	// wall had refused it something. "": there is none.
	Denied string
	// Authority is asked before every request; its epoch goes into the hello,
	// and a guest that has seen a higher one refuses it with CodeStaleOwner.
	Authority driver.Authority
	// Profile is how the connection is set up. Zero: Local.
	Profile Profile
	// Redial reaches the guest again. nil: a lost connection is final.
	Redial Dialer
	// OnClose is run once by Close, after the connection is gone. Its ctx ends
	// with what is left of the 5 s that Close may take.
	OnClose func(ctx context.Context) error
}

// helloTimeout bounds each attempt to reach a guest, whatever the caller's ctx.
const helloTimeout = 30 * time.Second

// Open says hello to the guest at the other end of stream and returns a session,
// which is a driver.Session, a driver.Pinger and a driver.Jobber. On an error the
// stream is closed and OnClose is not run. What answers but is no guest is CodeUnavailable, with what
// it said in the message. ctx bounds the opening only; without a deadline of its own
// it takes at most 30 s.
func Open(ctx context.Context, stream io.ReadWriteCloser, o OpenOptions) (*Session, error) {
	o.Profile = o.Profile.WithDefaults()
	s := &Session{o: o, client: randomID(), closed: make(chan struct{})}
	c, hello, err := s.greet(ctx, stream)
	if err != nil {
		return nil, ctxFirst(ctx, unavailable(err))
	}
	if s.id = o.ID; s.id == "" {
		s.id = hello.ID
		if err := spec.ValidateKey(spec.Key(s.id)); err != nil {
			c.drop()
			return nil, &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("the guest has no usable id: %w", err)}
		}
	}
	s.guestID, s.conn = hello.ID, c
	s.describe(hello)
	s.alive, s.end = context.WithCancel(context.Background())
	return s, nil
}

// greet makes a connection of a stream. It owns the stream.
func (s *Session) greet(ctx context.Context, stream io.ReadWriteCloser) (*conn, *wire.GuestHello, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := s.o.Authority.Check(ctx); err != nil {
		go stream.Close()
		return nil, nil, ctxFirst(ctx, err)
	}
	type answer struct {
		hello *wire.GuestHello
		err   error
	}
	got := make(chan answer, 1)
	go func() { // a goroutine, for a stream whose Close does not end a Read
		h, err := wire.SendHello(ctx, stream, wire.HostHello{
			Version: guestbin.Version(), ID: s.o.ID, Epoch: s.o.Authority.Epoch, Client: s.client, Profile: s.o.Profile,
		})
		got <- answer{h, err}
	}()
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err == nil {
		a.err = s.recognise(a.hello)
	}
	if a.err != nil {
		go stream.Close()
		return nil, nil, a.err
	}
	mux, err := wire.HostMux(stream, s.o.Profile)
	if err != nil {
		return nil, nil, &spec.Error{Code: spec.CodeUnavailable, Err: err}
	}
	return newConn(mux, a.hello), a.hello, nil
}

// recognise refuses a guest that is not the one that is meant: another id than the
// one asked for, or, on a redial, than the one met first.
func (s *Session) recognise(h *wire.GuestHello) error {
	want := s.o.ID
	if want == "" {
		want = s.guestID
	}
	if want != "" && h.ID != want {
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest of %.64q answers where that of %.64q was due", h.ID, want)}
	}
	return nil
}

// maxResume bounds the resume window that a guest may state.
const maxResume = 10 * time.Minute

func resumeWindow(h *wire.GuestHello) time.Duration {
	return min(max(time.Duration(h.ResumeMS), 0), maxResume/time.Millisecond) * time.Millisecond
}

// describe takes from the first hello what a session says of its place.
func (s *Session) describe(h *wire.GuestHello) {
	s.resume = resumeWindow(h)
	s.caps = s.o.Caps
	s.caps.OS, s.caps.Arch = h.OS, h.Arch
	s.caps.Shell, s.caps.Coreutils = h.Shell, h.Coreutils
	s.caps.CommandUser = h.CommandUser
	if !h.Jobs {
		s.caps.Jobs = spec.JobsNone
	}
	s.minor = h.Minor
	s.caps.Terminals = h.Terminals
	s.caps.Events = h.Minor >= eventsMinor
	s.caps.Watch, s.caps.Trees = h.Minor >= watchMinor, h.Minor >= treesMinor
	s.caps.Ports = h.Minor >= portsMinor
	s.caps.Resume = s.o.Redial != nil && s.resume > 0
	switch kill := spec.KillTree(h.KillTree); kill {
	case spec.KillTreeConfirmed, spec.KillTreeBestEffort:
		s.caps.KillTree = kill
	default:
		s.caps.KillTree = ""
	}
}

// randomID returns 128 random bits in hex.
func randomID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ctxFirst returns the context's error if it has ended, else err: what a call
// failed with because its ctx ended says nothing.
func ctxFirst(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
