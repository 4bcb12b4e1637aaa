package portcmd

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// NewForward returns the verb forward.
func NewForward(env *verb.Env) *cobra.Command {
	var key string
	var reverse []string
	cmd := &cobra.Command{
		Use:   "forward --key KEY [FLAG]... [[HOST:]LOCAL:REMOTE]...",
		Short: "Forward ports of this machine to a sandbox, or of the sandbox to this machine",
		Long: `Forward listens on LOCAL of this machine, and connects whoever comes there with REMOTE in
the sandbox. LOCAL is a port of 127.0.0.1 or, with HOST, of another address; 0 is one that
is free. REMOTE is PORT of the sandbox's loopback or HOST:PORT as the sandbox sees it. In
place of either may stand the path of a unix socket with a / in it, or @NAME. It prints
what it listens on, one a line, and goes on until the sandbox ends, which is the error
not_found; an interrupt ends it well.

--reverse offers something of this machine inside: it listens on REMOTE in the sandbox, and
connects with LOCAL here. Everything in the sandbox can use that then.`,
		Example: `  berth forward --key session-1 8080:3000
  berth forward --key session-1 0:3000 ./db.sock:5432
  berth forward --key session-1 --reverse 5432:5432`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var routes []route
			for i, word := range append(args[:len(args):len(args)], reverse...) {
				r, err := parseRoute(word, i >= len(args))
				if err != nil {
					return err
				}
				routes = append(routes, r)
			}
			if len(routes) == 0 {
				return verb.Usage("nothing to forward: want LOCAL:REMOTE or --reverse REMOTE:LOCAL")
			}
			return forward(cmd, env, key, routes)
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	cmd.Flags().StringArrayVar(&reverse, "reverse", nil, "`[HOST:]REMOTE:LOCAL` to offer something of this machine inside; repeatable")
	env.AddCompletions(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func forward(cmd *cobra.Command, env *verb.Env, key string, routes []route) error {
	ctx := cmd.Context()
	sb, _, err := env.Attach(ctx, key)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	f := &forwarder{env: env, sb: sb, conns: map[net.Conn]bool{}, failed: make(chan error, 1)}
	defer f.close()
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, r := range routes {
		if err := f.open(serving, r); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	f.serving.Go(func() { watch(serving, sb, ended) })
	select {
	case <-ctx.Done():
		return nil // there is no other end that anybody waits for
	case err = <-ended:
	case err = <-f.failed:
		if spec.CodeOf(err) == spec.CodeUnavailable { // the end of a listener inside
			select {
			case err = <-ended:
			case <-time.After(endTime):
			}
		}
	}
	return err
}

// endTime is how long the end of a listener waits for the news that it was the sandbox
// which has ended.
const endTime = 3 * time.Second

// watch waits for the end of a sandbox that tells what happens to it.
func watch(ctx context.Context, sb *berth.Sandbox, ended chan<- error) {
	for _, err := range sb.Events(ctx, berth.EventQuery{Follow: true}) {
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil, spec.CodeOf(err) == spec.CodeUnsupported:
			return
		case spec.CodeOf(err) != spec.CodeNotFound:
			ended <- err
			return
		}
	}
	if ctx.Err() == nil {
		ended <- &spec.Error{Code: spec.CodeNotFound, Err: errors.New("the sandbox has ended")}
	}
}

// forwarder serves routes until it is closed.
type forwarder struct {
	env    *verb.Env
	sb     *berth.Sandbox
	failed chan error // the first thing that ends all

	serving   sync.WaitGroup
	listeners []net.Listener

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// open begins to serve a route.
func (f *forwarder) open(ctx context.Context, r route) error {
	listen, dial := f.listenHere, dialer(f.sb.Dial)
	if r.reverse {
		listen = func(a address) (net.Listener, error) { return f.sb.Listen(ctx, a.network, a.text) }
		dial = (&net.Dialer{}).DialContext
	}
	l, err := listen(r.listen)
	if err != nil {
		return cause(err)
	}
	f.listeners = append(f.listeners, l)
	f.serving.Go(func() { f.serve(ctx, l, dial, r.target) })
	if f.env.JSON {
		return f.env.Print(struct {
			Listen  string `json:"listen"`
			Target  string `json:"target"`
			Reverse bool   `json:"reverse"`
		}{l.Addr().String(), r.target.text, r.reverse})
	}
	where := "here"
	if r.reverse {
		where = "in the sandbox"
	}
	return f.env.Say("%s %s -> %s", console.Clean(l.Addr().String()), where, console.Clean(r.target.text))
}

func (f *forwarder) serve(ctx context.Context, l net.Listener, dial dialer, target address) {
	full := false // and it has been said
	for {
		conn, err := l.Accept()
		switch {
		case err != nil && passes(err):
			if !full {
				f.env.Note("forward: %v; whoever comes waits", err)
			}
			full = true
			time.Sleep(acceptPause)
			continue
		case err != nil:
			f.end(err)
			return
		case !f.take(conn):
			return
		}
		f.serving.Go(func() {
			defer f.drop(conn)
			f.connect(ctx, conn, dial, target)
		})
	}
}

// connect joins one connection with the target.
func (f *forwarder) connect(ctx context.Context, conn net.Conn, dial dialer, target address) {
	other, err := dial(ctx, target.network, target.text)
	if err != nil {
		reset(conn)
		if spec.CodeOf(err) == spec.CodeNotFound {
			f.end(err) // the sandbox has ended
		} else if ctx.Err() == nil {
			f.env.Note("forward: %v", err)
		}
		return
	}
	if f.take(other) {
		defer f.drop(other)
		join(conn, other)
	}
}

// end ends the forwarding; the first reason counts.
func (f *forwarder) end(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

// take notes a connection, so that close ends it; one that comes too late is closed.
func (f *forwarder) take(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		conn.Close()
		return false
	}
	f.conns[conn] = true
	return true
}

func (f *forwarder) drop(conn net.Conn) {
	conn.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, conn)
}

// close ends everything and waits for it.
func (f *forwarder) close() {
	f.mu.Lock()
	f.closed = true
	for conn := range f.conns {
		reset(conn)
	}
	f.mu.Unlock()
	for _, l := range f.listeners {
		l.Close()
	}
	f.serving.Wait()
}
