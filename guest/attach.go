package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// link is a command's hold on one connection: its control stream and the data
// streams beside it.
type link struct {
	c   *conn
	ctl *wire.Stream

	cut  chan struct{} // closed when a data stream found the connection broken
	gone chan struct{} // closed when the link is given up
	next *link         // set before gone is closed: the link that follows, or nil

	turn chan struct{} // holds one token: taken by whoever sends on ctl

	mu      sync.Mutex
	streams []*wire.Stream // the data streams
	aborted bool
	ended   bool
	late    bool // the data streams are to bring what they have without a long pause
	cutOnce sync.Once
}

func newLink(c *conn, ctl *wire.Stream) *link {
	return &link{c: c, ctl: ctl, cut: make(chan struct{}), gone: make(chan struct{}), turn: make(chan struct{}, 1)}
}

// send writes a control message and gives up when ctx ends, though the transport
// takes nothing. The message may then still go out.
func (l *link) send(ctx context.Context, c wire.Control) error {
	select {
	case l.turn <- struct{}{}:
	case <-l.gone:
		return errLost
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-l.turn }()
		done <- wire.WriteMessage(l.ctl, c)
	}()
	select {
	case err := <-done:
		if err != nil {
			return errLost
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add makes st part of the link, so that it ends with it.
func (l *link) add(st *wire.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		go st.End()
		return
	}
	l.streams = append(l.streams, st)
	if l.aborted {
		st.Interrupt()
	} else if l.late {
		_ = st.SetReadDeadline(time.Now().Add(lateOutput))
	}
}

// abort makes whatever waits on a stream of the link fail.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	l.ctl.Interrupt()
	for _, st := range l.streams {
		st.Interrupt()
	}
}

// end lets go of all streams, without waiting for a transport that may be stuck.
func (l *link) end() {
	l.abort()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	go l.ctl.End()
	for _, st := range l.streams {
		go st.End()
	}
	l.streams = nil
}

// hasten has the data streams, those too that are still to be opened, bring something
// within lateOutput, and again after that: see await.
func (l *link) hasten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aborted || l.late {
		return
	}
	l.late = true
	for _, st := range l.streams {
		_ = st.SetReadDeadline(time.Now().Add(lateOutput))
	}
}

// await comes before each read of an output. Of a link in haste it gives st the time for
// something more to come, of what is left of most, and reports that. The time that the
// caller's writer takes is nobody's pause.
func (l *link) await(st *wire.Stream, most time.Duration) (late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late || l.aborted {
		return false
	}
	_ = st.SetReadDeadline(time.Now().Add(min(lateOutput, most)))
	return true
}

// owes reports whether the data streams are still to bring what they have without a long
// pause.
func (l *link) owes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late && !l.aborted
}

func (l *link) reportCut() { l.cutOnce.Do(func() { close(l.cut) }) }

// follow returns the link after l, when l is given up, or nil.
func (l *link) follow() *link {
	<-l.gone
	return l.next
}

// supervise sends the request and listens to the guest until the command is over
// for good: its end and all of its output received, or nothing more to be had.
func (p *process) supervise(req *wire.Request) {
	l, err := p.begin(req)
	if l != nil {
		p.launch(l)
	}
	for err == nil {
		began, before := time.Now(), p.progress()
		if err = p.listen(l); err != errLost { //nolint:errorlint // the bare sentinel
			break
		}
		p.outage.Broke(began, p.progress() > before)
		var next *link
		if next, err = p.resume(req); err == nil {
			p.relink(l, next)
			l = next
		}
	}
	switch {
	case p.life.Err() != nil:
		err = &spec.Error{Code: spec.CodeUnknownOutcome, Err: errors.New("the session was closed while the command ran")}
	case spec.CodeOf(err) == spec.CodeUnknownOutcome && p.overdue():
		p.settle(p.timedOut(), nil)
	}
	p.settle(spec.Exit{}, err) // of no effect after an exit was received
	p.leave(l)
}

// progress is how many bytes have been taken over, in either direction.
func (p *process) progress() (n int64) {
	for _, o := range p.outputs {
		n += o.received.Load()
	}
	if p.in != nil {
		p.in.mu.Lock()
		defer p.in.mu.Unlock()
		n += p.in.reached
	}
	return n
}

// leave lets go of the last link, if there is one, and of all that waits for it.
func (p *process) leave(l *link) {
	if l != nil {
		p.abandon(l)
		p.relink(l, nil)
	}
	close(p.left)
	if p.host != nil {
		p.host.Stop()
	}
	p.unwatch()
	p.drop()
}

// abandonTimeout bounds the last word about a command that is abandoned.
const abandonTimeout = time.Second

// abandon asks the guest to end a command that the host no longer listens to. One
// with a key is ended only if its caller's ctx has: it may be another caller's too.
// A session that closes says goodbye for all of its commands instead.
func (p *process) abandon(l *link) {
	select {
	case <-p.ended:
		return
	default:
	}
	if p.s.alive.Err() != nil || l.c.gone() || (p.key != "" && p.ctx.Err() == nil) {
		return
	}
	ctx, cancel := context.WithTimeout(p.s.alive, abandonTimeout)
	defer cancel()
	_ = p.s.dispatch(ctx, l.c, func(*conn) error { return l.send(ctx, wire.Control{Cancel: true}) })
}

// begin sends the request on the current connection.
func (p *process) begin(req *wire.Request) (*link, error) {
	var l *link
	err := p.s.dispatch(p.ctx, nil, func(c *conn) error {
		p.startClock()
		p.first = c
		ctl, err := openNow(c, req)
		l = newLink(c, ctl)
		return err
	})
	if l == nil { // nothing was sent
		return nil, err
	}
	if err == errLost { //nolint:errorlint // the bare sentinel
		// It may have been sent, and what was is found again by its id.
		p.outage.Failed()
		if l, err = p.resume(req); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// launch makes l the first link and starts the goroutines of the data streams.
func (p *process) launch(l *link) {
	p.mu.Lock()
	p.link = l
	p.mu.Unlock()
	close(p.linked)
	stop := context.AfterFunc(p.life, func() {
		p.mu.Lock()
		l := p.link
		p.mu.Unlock()
		if l != nil {
			l.abort()
		}
	})
	p.unwatch = func() { stop() }
	for _, o := range p.outputs {
		go p.pump(o, l)
	}
	if p.in != nil {
		go p.in.read()
		go p.supply(l)
	}
}

// relink puts next, which may be nil, in the place of l.
func (p *process) relink(l, next *link) {
	if l == nil {
		return
	}
	p.mu.Lock()
	p.link = next
	late := p.late
	p.mu.Unlock()
	if next != nil && late {
		next.hasten()
	}
	if next != nil && p.life.Err() != nil { // life ended just before
		next.abort()
	}
	l.next = next
	close(l.gone)
	l.end()
}

// maxEventBytes bounds one event: 64 survivors with long names fit.
const maxEventBytes = 64 << 10

// listen handles the guest's events on l until the command is over. errLost: the
// connection broke first. nil: everything was received, and Wait's answer is known.
func (p *process) listen(l *link) error {
	for started, left := false, false; ; {
		var ev wire.Event
		if err := wire.ReadMessage(l.ctl, &ev, maxEventBytes); err != nil {
			if p.life.Err() != nil {
				return p.life.Err()
			}
			return l.c.explain(err)
		}
		switch {
		case ev.Ack != 0:
			if err := p.acknowledge(ev.Ack, ev.Err); err != nil {
				return err
			}
		case ev.Err != nil:
			return p.refusal(ev.Err.Spec())
		case ev.Started != nil && !started:
			started = true
			if err := p.noteStart(ev.Started); err != nil {
				return err
			}
		case ev.Ended != nil && started && !left:
			left = true
			p.noteLeft(ev.Ended)
		case ev.Exit != nil && started:
			return p.collect(l, ev.Exit)
		default:
			return violation("an event that was not due")
		}
	}
}

// refusal says what the guest's error means: for a command that it had started, not
// to know it is to have lost it.
func (p *process) refusal(e *spec.Error) error {
	select {
	case <-p.started:
		if e.Code == spec.CodeNotFound {
			return &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("the guest no longer knows the command: %w", e)}
		}
	default:
	}
	return e
}

// noteStart takes the guest's word that the command runs. Only a repeated key may
// bring another name for it than the one chosen here.
func (p *process) noteStart(st *wire.Started) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.started:
		if st.ID != p.guestID {
			return violation("the command changed its id")
		}
		return nil
	default:
	}
	if st.ID != p.id && (p.key == "" || spec.ValidateKey(spec.Key(st.ID)) != nil) {
		return violation("the guest started %.64q where %q was due", st.ID, p.id)
	}
	p.guestID = st.ID
	close(p.started)
	return nil
}

// lateOutput is how long after the exit the connection may bring nothing of the rest of
// the output, before another one is asked for it, once, and lateInAll how long host and guest
// may wait for it altogether; the guest has sent all of it before. What it had not sent on an
// earlier connection follows: lateBytes at most, and a window.
const (
	lateOutput = 10 * time.Second
	lateInAll  = 5 * time.Minute
	lateBytes  = 2 << 20
)

// collect waits for the outputs, checks them against the exit record and answers
// Wait.
func (p *process) collect(l *link, said *wire.Exit) error {
	exit, err := p.believe(said)
	if err != nil {
		return err
	}
	p.noteEnd()
	late := lateBytes + int64(p.s.o.Profile.WindowBytes)
	if p.repeated() { // the guest may have kept less than all
		late = math.MaxInt64
	}
	for _, o := range p.outputs {
		if err := o.expect(&exit, late); err != nil {
			return err
		}
	}
	l.hasten()
	select {
	case <-p.drained:
	case <-l.cut:
		return errLost
	case <-p.life.Done():
		return p.life.Err()
	}
	for _, o := range p.outputs {
		// Of a command that ran before its key was repeated the exit's count
		// tells what is missing.
		if got, want := o.received.Load(), *o.count(&exit); got < want && !p.repeated() {
			return o.differs(got, want)
		}
	}
	p.settle(exit, p.stdioError())
	// The guest keeps a result until it is collected. If this is lost it does
	// so for its resume window only.
	_ = p.s.dispatch(p.life, l.c, func(*conn) error { return wire.WriteMessage(l.ctl, wire.Control{Done: true}) })
	return nil
}

// maxNameBytes bounds the name of a survivor; a kernel's has 15.
const maxNameBytes = 64

// believe takes what can be true of an exit record.
func (p *process) believe(said *wire.Exit) (spec.Exit, error) {
	exit, err := said.Spec()
	switch {
	case err != nil:
		return spec.Exit{}, &spec.Error{Code: spec.CodeInternal, Err: err}
	case p.key != "": // the first request with it may have had other deadlines
	case exit.NoOutput && p.silence == 0:
		return spec.Exit{}, violation("a command whose silence is not watched was ended for it")
	case exit.TimedOut && !exit.NoOutput && p.timeout == 0:
		return spec.Exit{}, violation("a command without a timeout timed out")
	}
	if said.Denied {
		exit.Hint = p.s.o.Denied
	}
	exit.Duration, exit.UserTime, exit.SystemTime = max(exit.Duration, 0), max(exit.UserTime, 0), max(exit.SystemTime, 0)
	exit.MaxRSSBytes = max(exit.MaxRSSBytes, 0)
	for i := range exit.Survivors {
		exit.Survivors[i].Name = clip(exit.Survivors[i].Name, maxNameBytes)
	}
	return exit, nil
}

// repeated reports whether the command was started before, under the same key.
func (p *process) repeated() bool { return p.ID() != p.id }

// noteLeft takes the guest's word that the leader has ended, in time or not, and that its
// output waits for the host.
func (p *process) noteLeft(e *wire.Ended) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inTime = !e.TimedOut
}

// noteEnd records that the guest has said how the command ended: there is nothing
// left to signal and nobody who takes input.
func (p *process) noteEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.started:
	default:
		close(p.started)
	}
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	if p.in != nil {
		p.in.stop()
	}
}

// stdioError is the first error of the caller's own ends of the streams.
func (p *process) stdioError() error {
	for _, o := range p.outputs {
		if o.err != nil {
			return o.err
		}
	}
	if p.in != nil {
		return p.in.readError()
	}
	return nil
}

// resume takes the command up again on a new connection. It tries until the resume
// window is over, since the guest then ends the command, or an attempt says that
// there is no use. A guest that lets itself be reached and breaks off at once, each
// time, is out of reach too. The error has CodeUnknownOutcome.
func (p *process) resume(req *wire.Request) (*link, error) {
	ctx, cancel := p.outage.Within(p.life, p.s.resume)
	defer cancel()
	err := errLost
	for p.outage.Pause(ctx) == nil {
		l, attachErr := p.attach(ctx, req)
		if attachErr == nil {
			return l, nil
		}
		if ctx.Err() == nil || err == errLost { //nolint:errorlint // the bare sentinel: the end of the window says less than what came before
			err = attachErr
		}
		if final(err) || errors.Is(err, errNotAgain) || p.s.o.Redial == nil {
			break
		}
	}
	if errors.Is(err, errNotAgain) {
		return nil, &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("%w before it was known whether the command runs: %w", errLost, err)}
	}
	return nil, &spec.Error{Code: spec.CodeUnknownOutcome, Err: fmt.Errorf("%w while the command ran, and the place is out of reach: %w", errLost, err)}
}

// errNotAgain is the end of the attempts to have a command confirmed.
var errNotAgain = errors.New("it may have run, and a guest that cannot know that is not asked to run it")

// attach asks for the command on a new connection. A command that the guest has not
// confirmed is asked for by its whole request again, as long as the guest knows by the
// id whether it has had that already.
func (p *process) attach(ctx context.Context, req *wire.Request) (*link, error) {
	again := true
	select {
	case <-p.started:
		req, again = &wire.Request{Op: wire.OpAttach, Attach: &wire.AttachRequest{ID: p.ID()}}, false
	default:
	}
	var l *link
	err := p.s.dispatch(ctx, nil, func(c *conn) error {
		if again && (c.incarnation != p.first.incarnation || time.Since(p.sent) >= p.first.resume) {
			return errNotAgain
		}
		ctl, err := openWithin(ctx, c, req)
		if err == nil {
			l = newLink(c, ctl)
		}
		return err
	})
	return l, err
}
