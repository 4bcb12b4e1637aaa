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
	var w *Witness
	err := e.Do(ctx, Call{Authority: auth, What: "attach to container"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stderr: true})
		if err == nil {
			w = &Witness{conn: res.Conn, out: newDemux(res.Reader), done: make(chan struct{})}
		}
		return err
	})
	if err != nil {
		return nil
	}
	go func() {
		defer close(w.done)
		_, _ = io.Copy(io.Discard, w.out) // keeps the first of stderr
	}()
	return w
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
