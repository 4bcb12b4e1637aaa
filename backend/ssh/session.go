package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/place/remote"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// host is the driver.
type host struct {
	o    Options
	pool *pool

	// ready holds a token while one caller finds out what far and bin are.
	ready chan struct{}
	known bool
	far   far
	bin   guest.Bin

	// uploading holds a token while one caller uploads; uploads counts.
	uploading chan struct{}
	uploads   atomic.Int64
}

// connect asks for a place and opens a session on the guest that answers.
func (h *host) connect(ctx context.Context, req *remote.Request, auth driver.Authority, progress func(spec.Progress)) (driver.Session, error) {
	c := call{verb: remote.VerbConnect, req: req, auth: auth, progress: progress, changes: req.Mode == remote.ModeProvision}
	s, answer, err := h.send(ctx, c)
	if errors.Is(err, errNoDir) {
		return nil, spec.New(spec.CodeNotFound, "no such sandbox")
	}
	if err != nil {
		return nil, err
	}
	rec := answer.Record
	if rec == nil {
		s.Close()
		return nil, spec.New(spec.CodeInternal, "the host answers without a record")
	}
	sess, err := guest.Open(ctx, h.wrap(s), guest.OpenOptions{
		ID:        rec.ID,
		Caps:      h.caps(rec.Ephemeral),
		Authority: auth,
		Profile:   guest.Network(),
		Redial:    h.redialer(rec.ID, auth),
	})
	if err != nil {
		// A place without a key ends by itself, and one with a key is found by it: others may
		// work in it by now.
		return nil, h.explain(s, err)
	}
	return sess, nil
}

// redialer reaches the guest of one place again.
func (h *host) redialer(id string, auth driver.Authority) guest.Dialer {
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		req := h.request(auth)
		req.Mode, req.ID = remote.ModeDial, id
		s, _, err := h.send(ctx, call{verb: remote.VerbConnect, req: req, auth: auth})
		if errors.Is(err, errNoDir) {
			return nil, spec.New(spec.CodeNotFound, "the sandbox is gone")
		}
		if err != nil {
			return nil, err
		}
		return h.wrap(s), nil
	}
}

func (h *host) wrap(s *stream) io.ReadWriteCloser {
	if h.o.Transport == nil {
		return s
	}
	return h.o.Transport(s)
}

// caps is what a place on this host can do; the guest's hello says the rest.
func (h *host) caps(ephemeral bool) spec.Caps {
	c := caps()
	c.Missing = ""
	if ephemeral {
		c.Jobs = spec.JobsProcess
	}
	return c
}

// explain adds what the far side has complained about to an error of a stream.
func (h *host) explain(s *stream, err error) error {
	var e *spec.Error
	said := s.complaint()
	if said == "" || !errors.As(err, &e) || e.Code != spec.CodeUnavailable {
		return err
	}
	c := *e
	c.Err = fmt.Errorf("%w; the host says: %s", e.Err, strconv.QuoteToASCII(clip(said)))
	return &c
}

// call is one request to the far side.
type call struct {
	verb     string
	req      *remote.Request
	auth     driver.Authority
	progress func(spec.Progress)
	// changes says that it may have had an effect once it is sent.
	changes bool
}

var (
	// errNoDir: there is no state directory, so no place in it.
	errNoDir = errors.New("no state directory")
	// errNoGuest: the guest binary must be uploaded.
	errNoGuest = errors.New("no guest binary")
)

// ask sends a call whose answer is all there is.
func (h *host) ask(ctx context.Context, c call) (*remote.Answer, error) {
	s, answer, err := h.send(ctx, c)
	if err != nil {
		return nil, err
	}
	s.Close()
	return answer, nil
}

// send is the one way to the far side: it checks the fence, sends the request and
// reads the answer, within answerTimeout. The guest binary is uploaded when it is
// missed. The caller closes the stream.
func (h *host) send(parent context.Context, c call) (*stream, *remote.Answer, error) {
	if err := c.auth.Check(parent); err != nil {
		return nil, nil, err
	}
	if err := h.prepare(parent, c.progress); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(parent, answerTimeout, errNoAnswer)
	defer cancel()
	// The second upload is for a file that somebody removed at this very moment.
	const uploads = 2
	for i := 0; ; i++ {
		if err := c.auth.Check(ctx); err != nil {
			return nil, nil, err
		}
		before := h.uploads.Load()
		s, answer, err := h.try(ctx, c)
		switch {
		case err == nil:
			return s, answer, nil
		case context.Cause(ctx) == errNoAnswer:
			return nil, nil, c.lost(timedOut(ctx, err))
		case !errors.Is(err, errNoGuest):
			return nil, nil, err
		}
		if i == uploads {
			return nil, nil, &spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the guest binary vanishes from the host"), Hint: "see what removes files in the remote directory"}
		}
		if err := h.upload(ctx, c, before); err != nil {
			return nil, nil, timedOut(ctx, err)
		}
	}
}

// try sends the call once.
func (h *host) try(ctx context.Context, c call) (*stream, *remote.Answer, error) {
	need := "have"
	if c.req.Mode == remote.ModeProvision {
		need = "make"
	}
	line := shell(placeScript, h.far.guestPath(h.bin.Hash), strconv.FormatInt(h.bin.Size, 10), h.far.dir, c.verb, need)
	s, err := h.pool.exec(ctx, line)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	answer, err := h.exchange(ctx, s, c)
	if !stop() && err == nil {
		err = ctx.Err() // the answer came just before, and its stream is closed
	}
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, answer, nil
}

// exchange sends the request and reads the answer.
func (h *host) exchange(ctx context.Context, s *stream, c call) (*remote.Answer, error) {
	// A script that ends early says why by its exit status.
	_ = within(ctx, func() error { return wire.WriteMessage(s, c.req) })
	var head [1]byte
	n, _ := io.ReadFull(s, head[:])
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case n == 0:
		return nil, c.silent(ctx, s)
	case head[0] != wire.FrameJSON:
		return nil, c.lost(strayOutput(append(head[:], s.rest()...), s))
	}
	answer, err := remote.ReadAnswer(io.MultiReader(bytes.NewReader(head[:]), s))
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, wire.ErrProtocol):
		return nil, c.lost(err)
	}
	return nil, err
}

// silent says what it means that the stream ended without an answer.
func (c call) silent(ctx context.Context, s *stream) error {
	code, known, err := s.status(ctx)
	if err != nil {
		return err
	}
	said := s.complaint()
	if said == "" {
		said = "nothing"
	}
	switch {
	case known && code == exitNoGuest:
		return errNoGuest
	case known && code == exitNoDir:
		return errNoDir
	case known && (code == 126 || code == 127):
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the host cannot run the guest: %s", strconv.QuoteToASCII(clip(said))), Hint: "its file system may be mounted noexec: name a remote directory on another one"}
	case known:
		return c.lost(&spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the host gives no answer, but exit status %d, and says: %s", code, strconv.QuoteToASCII(clip(said)))})
	}
	return c.lost(&spec.Error{Code: spec.CodeUnavailable, Err: errors.New("the connection to the host broke before the answer")})
}

// lost makes the error of a call that was sent and not answered tell the truth
// about its effect.
func (c call) lost(err error) error {
	var e *spec.Error
	if !c.changes || !errors.As(err, &e) {
		return err
	}
	sent := *e
	sent.Code = spec.CodeUnknownOutcome
	return &sent
}

// prepare finds out, once for all callers, what the far side is and which guest
// belongs there. A failure is not remembered.
func (h *host) prepare(ctx context.Context, progress func(spec.Progress)) error {
	select {
	case h.ready <- struct{}{}:
		defer func() { <-h.ready }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.known {
		return nil
	}
	f, err := h.pool.probe(ctx, h.o.RemoteDir)
	if err != nil {
		return err
	}
	o := h.o.Guest
	if o.Progress == nil {
		o.Progress = progress
	}
	bin, err := guest.Binary(ctx, f.os, f.arch, o)
	if err != nil {
		return err
	}
	h.far, h.bin, h.known = f, bin, true
	return nil
}

// upload uploads the guest, unless another caller has done so since before.
func (h *host) upload(ctx context.Context, c call, before int64) error {
	select {
	case h.uploading <- struct{}{}:
		defer func() { <-h.uploading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.uploads.Load() != before {
		return nil
	}
	if err := c.auth.Check(ctx); err != nil {
		return err
	}
	if err := h.pool.upload(ctx, h.far, h.bin, c.progress); err != nil {
		return err
	}
	h.uploads.Add(1)
	return nil
}
