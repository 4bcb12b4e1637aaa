package engine

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/moby/moby/client"
)

// Witness keeps what a starting guest says on its stderr, which nobody logs. The nil
// witness has heard nothing.
type Witness struct {
	conn io.Closer
	out  *demux
	done chan struct{}
}

// Watch attaches to a container's stderr before its start; nil if that fails: the
// start itself will say what is wrong.
func (e *Engine) Watch(ctx context.Context, auth driver.Authority, id string) *Witness {
	said, err := e.attach(ctx, auth, id, client.ContainerAttachOptions{Stream: true, Stderr: true})
	if err != nil {
		return nil
	}
	w := &Witness{conn: said.Conn, out: newDemux(said.Reader), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		_, _ = io.Copy(io.Discard, w.out) // keeps the first of stderr
	}()
	return w
}

// attach attaches to streams of a container. The caller closes the response.
func (e *Engine) attach(ctx context.Context, auth driver.Authority, id string, o client.ContainerAttachOptions) (client.HijackedResponse, error) {
	var out client.HijackedResponse
	err := e.Do(ctx, Call{Authority: auth, What: "attach to container"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerAttach(ctx, id, o)
		out = res.HijackedResponse
		return err
	})
	return out, err
}

// Said returns what came, once the stream has ended or a moment has passed.
func (w *Witness) Said() string {
	if w == nil {
		return ""
	}
	select {
	case <-w.done:
	case <-time.After(time.Second):
		w.Close()
	}
	return strings.TrimSpace(string(w.out.notes))
}

// Close ends the stream and waits for its reader.
func (w *Witness) Close() {
	if w != nil {
		w.conn.Close()
		<-w.done
	}
}
