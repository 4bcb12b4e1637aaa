package address

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

// dialLimit bounds one connection to the engine, a handshake included. One by SSH may
// have to log in first, which has a bound of its own.
const dialLimit = 10 * time.Second

// Options say which engine is meant. Host goes before Context, that before the context
// which the files of ConfigDir call the current one, and that before the usual address.
type Options struct {
	// Host is unix:///path, tcp://host[:port], ssh://[user@]host[:port][/socket] or,
	// on Windows, npipe:////./pipe/name. "": Context decides.
	Host string
	// Sockets are paths that are tried in this order where nothing names an engine and
	// there is no socket at the usual address, or one that is closed to this user. The
	// first that answers is kept to.
	Sockets []string
	// OnDemand connects where nothing names an engine and nobody listens on any of these
	// sockets, starting one if need be. Its error is fs.ErrNotExist where there is nothing
	// to start. nil: none is started.
	OnDemand func(ctx context.Context) (net.Conn, error)
	// Context is the name of a context of Docker's command line, which is kept in
	// ConfigDir. "": the current one. "default": none.
	Context string
	// ConfigDir is where Docker's command line keeps its contexts, and says which one is
	// current: ~/.docker. "": there are none.
	ConfigDir string
	// TLS: a tcp:// engine proves who it is, and is shown who asks, by certificates. It
	// has no meaning for other addresses, and a context has its own.
	TLS bool
	// TLSDir holds ca.pem, and cert.pem with key.pem; what is missing is not used. "":
	// ConfigDir. Without a ca.pem the system's authorities are believed.
	TLSDir string
	// SSHKey is a private key for an ssh:// engine, beside those that ssh's own
	// configuration names for it. "": none.
	SSHKey string
}

// Address is where an engine is. It is safe for concurrent use.
type Address struct {
	// Host is the address as a person reads it.
	Host string
	// Named: somebody asked for this address, as opposed to finding the usual one.
	Named bool
	// Context is the context that named it; "": none did.
	Context string
	// Dial connects. Its error is a *spec.Error if the way to the engine is what is
	// wrong, and that of package net if nobody answers. nil for a Windows pipe, which
	// only the SDK knows.
	Dial func(ctx context.Context) (net.Conn, error)
}

// New returns the engine that o means, where usual is the address of one that nobody
// names. It reads files and makes no connection. Its error is a *spec.Error.
func New(usual string, o Options) (*Address, error) {
	a := &Address{Host: o.Host, Named: o.Host != ""}
	ca := certificates{use: o.TLS, dir: o.TLSDir, fallback: o.ConfigDir}
	if !a.Named {
		found, err := lookUp(o.ConfigDir, o.Context)
		if err != nil {
			return nil, err
		}
		a.Host, a.Named, a.Context = usual, found.host != "", found.name
		if a.Named {
			a.Host, ca = found.host, found.certificates
		}
	}
	var err error
	scheme, rest, _ := strings.Cut(a.Host, "://")
	switch scheme {
	case "unix":
		if a.Named {
			o.Sockets, o.OnDemand = nil, nil
		}
		a.Dial, err = dialSockets(a.Host, append([]string{rest}, o.Sockets...), o.OnDemand)
	case "tcp", "http":
		a.Dial, err = dialTCP(a.Host, ca)
	case "ssh":
		a.Dial, err = dialSSH(a.Host, o.SSHKey, socketOf(usual))
	case "npipe":
	default:
		err = malformed(a.Host, errors.New("it has none of these forms"))
	}
	if err == nil {
		return a, nil
	}
	e, ok := errors.AsType[*spec.Error](err)
	if ok && a.Context != "" {
		e.Err = fmt.Errorf("context %q: %w", a.Context, e.Err)
	}
	return nil, err
}

// malformed refuses what is no engine's address.
func malformed(host string, why error) error {
	return &spec.Error{
		Code: spec.CodeInvalid, Err: fmt.Errorf("engine address %.128q: %w", host, why),
		Hint: "write unix:///path, tcp://host:port or ssh://user@host",
	}
}

// parse takes a host apart; the error says what is wrong with it. An error of package url
// would repeat the whole, with a password in it.
func parse(host string) (*url.URL, error) {
	u, err := url.Parse(host)
	var why *url.Error
	switch {
	case errors.As(err, &why):
		return nil, malformed(scrub(host), why.Err)
	case u.Hostname() == "":
		return nil, malformed(scrub(host), errors.New("it names no host"))
	case u.RawQuery != "" || u.Fragment != "":
		return nil, malformed(scrub(host), errors.New("nothing may follow the path"))
	}
	return u, nil
}

// scrub takes whoever logs in off an address.
func scrub(host string) string {
	scheme, rest, _ := strings.Cut(host, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return scheme + "://" + rest
}

// socketOf returns the path of a unix address, or "".
func socketOf(host string) string {
	path, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		return ""
	}
	return path
}

// dialSockets connects to the first socket that there is, or else on demand. The way that
// has led to an engine is kept to: where that one is gone, another one is another engine.
func dialSockets(host string, sockets []string, onDemand func(context.Context) (net.Conn, error)) (func(context.Context) (net.Conn, error), error) {
	if !strings.HasPrefix(sockets[0], "/") {
		return nil, malformed(host, errors.New("a socket has an absolute path"))
	}
	var ways []func(context.Context) (net.Conn, error)
	for _, path := range sockets {
		ways = append(ways, func(ctx context.Context) (net.Conn, error) {
			d := net.Dialer{Timeout: dialLimit}
			return d.DialContext(ctx, "unix", path)
		})
	}
	var kept atomic.Pointer[func(context.Context) (net.Conn, error)]
	return func(ctx context.Context) (net.Conn, error) {
		if dial := kept.Load(); dial != nil {
			return (*dial)(ctx)
		}
		var first error
		for _, dial := range ways {
			conn, err := dial(ctx)
			if err == nil {
				kept.CompareAndSwap(nil, &dial)
				return conn, nil
			}
			if first == nil {
				first = err
			}
			if !nobody(err, onDemand != nil) {
				return nil, first
			}
		}
		if onDemand == nil {
			return nil, first
		}
		conn, err := onDemand(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, first
		}
		if err == nil {
			kept.CompareAndSwap(nil, &onDemand)
		}
		return conn, err
	}, nil
}

// nobody reports whether err says that a socket is not that of the engine that is meant: it
// is not there, or root's and closed to this user. One on which nobody listens any more is
// that of an engine that is down, unless engines come and go on demand.
func nobody(err error, comeAndGo bool) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || comeAndGo && errors.Is(err, syscall.ECONNREFUSED)
}

// The ports of engines without and with TLS.
const (
	plainPort = "2375"
	tlsPort   = "2376"
)

func dialTCP(host string, ca certificates) (func(context.Context) (net.Conn, error), error) {
	u, err := parse(host)
	switch {
	case err != nil:
		return nil, err
	case u.User != nil:
		return nil, malformed(scrub(host), errors.New("nobody logs in by TCP"))
	case u.Path != "" && u.Path != "/":
		return nil, malformed(host, errors.New("it has a path"))
	}
	config, err := ca.load(u.Hostname())
	if err != nil {
		return nil, err
	}
	port := u.Port()
	switch {
	case port == "" && config == nil:
		port = plainPort
	case port == "":
		port = tlsPort
	}
	addr := net.JoinHostPort(u.Hostname(), port)
	return func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialLimit)
		defer cancel()
		raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil || config == nil {
			return raw, err
		}
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, ca.refused(addr, err)
		}
		return conn, nil
	}, nil
}
