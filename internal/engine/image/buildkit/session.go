package buildkit

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/client"
)

const (
	// openLimit bounds the opening of a session.
	openLimit = 30 * time.Second
	// maxHead bounds what an engine answers before it becomes a session.
	maxHead = 64 << 10
	// maxCalls is how many calls of an engine are answered at once.
	maxCalls = 16
)

// ErrNoSession is the cause of Open's error where the engine answers and has no sessions:
// it has no BuildKit, or something before it lets nobody use it.
var ErrNoSession = errors.New("the engine offers no session for BuildKit")

// Key is what a registry is shown.
type Key struct {
	User, Secret string // with User "" the secret is a token
}

// Session is open until Close.
type Session struct {
	// ID is how a build names it.
	ID string

	listener listener
	service  *service
	served   chan struct{} // closed at the end of the server
}

// Open opens a session in which the engine can have the keys of these registries, by the
// names that it has for them, and the files of these directories. An engine without sessions is ErrNoSession; the error of a
// connection that cannot be made is the client's, any other a *spec.Error. The session
// does not end with ctx.
func Open(ctx context.Context, api *client.Client, keys map[string]Key, dirs map[string][]File) (*Session, error) {
	s := &Session{ID: rand.Text(), service: &service{keys: keys, dirs: dirs}, served: make(chan struct{})}
	bounded, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	conn, err := api.Dialer()(bounded)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(bounded, func() { conn.Close() })
	upgraded, err := upgrade(conn, s.ID, s.service.methods())
	if !stop() {
		err = bounded.Err() // and the connection is closed
	}
	switch {
	case err == nil:
		s.listener = listener{conn: upgraded, ended: make(chan struct{})}
		s.serve(s.service)
		return s, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case !errors.Is(err, ErrNoSession):
		err = &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("open a session for the build: %w", err)}
	}
	conn.Close()
	return nil, err
}

// upgrade asks for the session.
func upgrade(conn net.Conn, id string, methods []string) (net.Conn, error) {
	r, err := http.NewRequest(http.MethodPost, "http://docker/session", http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"h2c"}, "User-Agent": {"berth"},
		"X-Docker-Expose-Session-Uuid": {id}, "X-Docker-Expose-Session-Name": {"berth"}, "X-Docker-Expose-Session-Sharedkey": {id},
		"X-Docker-Expose-Session-Grpc-Method": methods,
	}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	bounded := &io.LimitedReader{R: conn, N: maxHead}
	buffered := bufio.NewReader(bounded)
	res, err := http.ReadResponse(buffered, r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("%w: it answers with status %d", ErrNoSession, res.StatusCode)
	}
	bounded.N = math.MaxInt64
	return &begun{Conn: conn, r: buffered}, nil
}

// begun is a connection of which the beginning has been read.
type begun struct {
	net.Conn
	r io.Reader
}

func (c *begun) Read(p []byte) (int, error) { return c.r.Read(p) }

// listener hands a server its one connection.
type listener struct {
	conn  net.Conn
	taken bool          // by the server's loop, which alone asks
	ended chan struct{} // closed when the server is done with it
}

func (l *listener) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return l.conn, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return l.conn.LocalAddr() }

// serve answers the engine until the connection ends.
func (s *Session) serve(h http.Handler) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: h, Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxCalls}, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(s.listener.ended)
			}
		},
	}
	go func() {
		defer close(s.served)
		_ = server.Serve(&s.listener) // an error at its end, always
	}()
}

// Close ends the session and waits for the end of its connection, and of the calls that are
// being answered, which end with it.
func (s *Session) Close() {
	s.service.close()
	s.listener.conn.Close()
	<-s.served
	s.service.calls.Wait()
}

// Err is the first error of a file that the engine asked for, after Close.
func (s *Session) Err() error {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	return s.service.failed
}
