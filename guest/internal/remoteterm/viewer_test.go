package remoteterm_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/guest/internal/remoteterm"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// stuck is a session whose transport takes nothing any more once a view has begun.
type stuck struct {
	ask.Session
	free chan struct{}
}

func (s stuck) Patiently(_ context.Context, _ *wire.Request, _ bool, read func(ask.Stream) (bool, error)) error {
	var said bytes.Buffer
	// What was skipped is acknowledged at once.
	_ = wire.WriteMessage(&said, &wire.TerminalEvent{Size: &spec.TerminalSize{Cols: 80, Rows: 24}, At: 9, Skipped: 9})
	_, err := read(&stuckStream{said: &said, free: s.free})
	return err
}

type stuckStream struct {
	ask.Stream
	said *bytes.Buffer
	free chan struct{}
}

func (s *stuckStream) Read(p []byte) (int, error) { return s.said.Read(p) }
func (s *stuckStream) End()                       {}

func (s *stuckStream) Send(context.Context, any) error {
	<-s.free
	return context.Canceled
}

// TestNextAfterDetach defends: Next returns once its view has been detached or its session is
// closed, though what watches the view is held up by the transport.
func TestNextAfterDetach(t *testing.T) {
	for _, what := range []string{"detached", "closed"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alive, closing := context.WithCancel(context.Background())
				defer closing()
				free := make(chan struct{})
				v, err := remoteterm.New(stuck{free: free}, alive, "").Attach(t.Context(), wire.TerminalID(1), "v")
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // what was skipped, and the size
					if _, err := v.Next(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				over := make(chan error, 1)
				go func() {
					_, err := v.Next(context.Background())
					over <- err
				}()
				synctest.Wait()
				if what == "detached" {
					v.Detach()
				} else {
					closing()
				}
				synctest.Wait()
				select {
				case err := <-over:
					if spec.CodeOf(err) != spec.CodeInvalid {
						t.Errorf("%v; want that it was %s", err, what)
					}
				default:
					t.Errorf("it still waits")
				}
				close(free)
			})
		})
	}
}
