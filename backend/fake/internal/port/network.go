package port

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// Network is what listens in one life of a place, and who is connected. The zero value is
// ready; it is safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	conns     []*conn
	last      uint16 // the port that was given out last
	lost      error
}

// backlog is how many connections wait for who accepts.
const backlog = 128

// firstPort is the first of those that are given out.
const firstPort = 32768

type listener struct {
	n     *Network
	owner any
	addr  net.Addr
	queue chan *conn

	once sync.Once
	over chan struct{}
	err  error
}

// resolve returns an address as the place knows it. dir is where relative paths begin.
func resolve(dir, network, address string) net.Addr {
	if network == "unix" {
		if address[0] != '/' && address[0] != '@' {
			address = dir + "/" + address
		}
		return &net.UnixAddr{Name: address, Net: "unix"}
	}
	host, port, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil:
	case network == "tcp6":
		ip = netip.IPv6Loopback()
	default:
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	var number uint16
	_, _ = fmt.Sscan(port, &number) // it was validated
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, number))
}

// Dial connects to a listener. owner is who has the connection.
func (n *Network) Dial(ctx context.Context, owner any, dir, network, address string) (net.Conn, error) {
	to := resolve(dir, network, address)
	n.mu.Lock()
	l, lost := n.listeners[to.String()], n.lost
	if l == nil || lost != nil {
		n.mu.Unlock()
		if lost != nil {
			return nil, lost
		}
		cause := syscall.ECONNREFUSED
		if u, ok := to.(*net.UnixAddr); ok && !strings.HasPrefix(u.Name, "@") {
			cause = syscall.ENOENT
		}
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: cause}
	}
	from := net.Addr(&net.UnixAddr{Net: "unix"})
	if t, ok := to.(*net.TCPAddr); ok {
		from = &net.TCPAddr{IP: t.IP, Port: n.freeLocked()}
	}
	one, other := pipe(from, to)
	one.owner, other.owner = owner, l.owner
	n.conns = slices.DeleteFunc(n.conns, (*conn).over)
	n.conns = append(n.conns, one, other)
	n.mu.Unlock()
	select {
	case l.queue <- other:
		return one, nil
	case <-l.over:
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// freeLocked gives out a port.
func (n *Network) freeLocked() int {
	n.last = max(n.last+1, firstPort)
	return int(n.last)
}

// Listen listens on an address. owner is who has what is accepted.
func (n *Network) Listen(owner any, dir, network, address string) (net.Listener, error) {
	at := resolve(dir, network, address)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost != nil {
		return nil, n.lost
	}
	if t, ok := at.(*net.TCPAddr); ok && t.Port == 0 {
		t.Port = n.freeLocked()
	}
	if n.listeners[at.String()] != nil {
		return nil, &spec.Error{Code: spec.CodeExists, Err: syscall.EADDRINUSE}
	}
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	l := &listener{n: n, owner: owner, addr: at, queue: make(chan *conn, backlog), over: make(chan struct{})}
	n.listeners[at.String()] = l
	return l, nil
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.over:
		return nil, l.err
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.over:
		return nil, l.err
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.endLocked(net.ErrClosed)
	return nil
}

// endLocked ends the listening, and resets who waits.
func (l *listener) endLocked(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.over)
		delete(l.n.listeners, l.addr.String())
	})
	for {
		select {
		case c := <-l.queue:
			c.fail(syscall.ECONNRESET)
		default:
			return
		}
	}
}

// Ports lists what listens.
func (n *Network) Ports() []spec.Port {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []spec.Port
	for address, l := range n.listeners {
		network := "unix"
		if t, ok := l.addr.(*net.TCPAddr); ok {
			if network = "tcp6"; t.IP.To4() != nil {
				network = "tcp4"
			}
		}
		out = append(out, spec.Port{Network: network, Address: address})
	}
	slices.SortFunc(out, func(a, b spec.Port) int { return strings.Compare(a.Network+a.Address, b.Network+b.Address) })
	return out
}

// Lose ends everything for a reason.
func (n *Network) Lose(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost != nil {
		return
	}
	n.lost = err
	n.loseLocked(nil, err)
}

// Leave ends what an owner has, who has left.
func (n *Network) Leave(owner any, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loseLocked(owner, err)
}

// loseLocked ends what owner has; nil: what anybody has.
func (n *Network) loseLocked(owner any, err error) {
	for _, l := range n.listeners {
		if owner == nil || l.owner == owner {
			l.endLocked(err)
		}
	}
	for _, c := range n.conns {
		if owner == nil || c.owner == owner {
			c.fail(err)
		}
	}
	n.conns = slices.DeleteFunc(n.conns, func(c *conn) bool { return owner == nil || c.owner == owner })
}
