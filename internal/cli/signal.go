package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

// insistence: so many interrupts in so much time mean that the command is to be
// killed, whatever it does about them.
const (
	insistCount = 3
	insistTime  = 2 * time.Second
)

// forwardTimeout bounds the sending of one signal.
const forwardTimeout = 5 * time.Second

// interrupted is the error of a verb that a signal ended.
type interrupted struct{ signal spec.Signal }

func (i *interrupted) Error() string { return fmt.Sprintf("interrupted by signal %d", i.signal) }

// target is a command that signals are passed on to.
type target interface {
	Signal(ctx context.Context, s spec.Signal) error
	Kill(ctx context.Context) error
}

// signals takes the signals that this process gets. While a command runs they are
// the command's, otherwise they end what is being done.
type signals struct {
	cancel context.CancelCauseFunc
	got    chan os.Signal
	pipe   chan os.Signal
	done   chan struct{}

	mu       sync.Mutex
	target   target
	starting bool          // a command may run already and is not known yet
	held     []spec.Signal // what came meanwhile
	insist   []time.Time   // the interrupts of the last moments
	killed   bool
	passed   bool      // some signal was for the command
	ending   time.Time // when the command was first told to end for certain
}

// watchSignals begins to take signals. One that is ignored already, under nohup or
// in the background of a shell, stays so.
func watchSignals(cancel context.CancelCauseFunc) *signals {
	s := &signals{cancel: cancel, got: make(chan os.Signal, 16), pipe: make(chan os.Signal, 1), done: make(chan struct{})}
	for sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(s.got, sig)
		}
	}
	// Taken, so that a write to a closed pipe is an error to handle; never read.
	signal.Notify(s.pipe, syscall.SIGPIPE)
	go s.watch()
	return s
}

func (s *signals) stop() {
	signal.Stop(s.got)
	signal.Stop(s.pipe)
	close(s.done)
}

// hold keeps the first signal that comes for the command that is being started; a
// second one ends the start.
func (s *signals) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting, s.held = true, nil
}

// forwardTo gives the signals that come, and those that were held, to a command. nil
// takes them back.
func (s *signals) forwardTo(t target) {
	s.mu.Lock()
	s.target, s.starting, s.insist, s.killed, s.ending = t, false, nil, false, time.Time{}
	s.passed = s.passed && t == nil
	held := s.held
	s.held = nil
	s.mu.Unlock()
	if t == nil {
		return
	}
	for _, n := range held {
		s.handle(n, time.Now())
	}
}

// toldToEnd returns when the command was told to end by a signal that is no request of
// a person to it: TERM, or one interrupt too many. Zero: it was not.
func (s *signals) toldToEnd() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// passedOn reports whether the command got a signal from us.
func (s *signals) passedOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed
}

func (s *signals) watch() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.got:
			s.handle(forwarded[sig], time.Now())
		}
	}
}

// handle decides what one signal does.
func (s *signals) handle(n spec.Signal, now time.Time) {
	t, kill := s.decide(n, now)
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), forwardTimeout)
	defer cancel()
	// A signal that cannot be delivered is not the end of the command; what
	// became of it is for Wait to say.
	if kill {
		_ = t.Kill(ctx)
	} else {
		_ = t.Signal(ctx, n)
	}
}

// decide returns the command that is to get the signal, or to be killed; nil where
// the signal was held or has ended what is being done.
func (s *signals) decide(n spec.Signal, now time.Time) (t target, kill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.starting && len(s.held) == 0:
		s.held = append(s.held, n)
		return nil, false
	case s.target == nil:
		s.cancel(&interrupted{n})
		return nil, false
	case n != spec.SIGINT:
		s.passed = true
		if n == spec.SIGTERM && s.ending.IsZero() {
			s.ending = now
		}
		return s.target, false
	case s.killed:
		s.cancel(&interrupted{n})
		return nil, false
	}
	kept := s.insist[:0]
	for _, at := range s.insist {
		if now.Sub(at) < insistTime {
			kept = append(kept, at)
		}
	}
	s.passed = true
	s.insist = append(kept, now)
	s.killed = len(s.insist) >= insistCount
	if s.killed && s.ending.IsZero() {
		s.ending = now
	}
	return s.target, s.killed
}
