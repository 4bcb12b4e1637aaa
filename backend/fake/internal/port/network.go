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

// Owner is who has a connection or a listener. It is told what happens to them.
type Owner interface{ Tell(spec.Event) }

type listener struct {
	n     *Network
	owner Owner
	name  string // network and address, as they were asked for
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
func (n *Network) Dial(ctx context.Context, owner Owner, dir, network, address string) (net.Conn, error) {
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
		owner.Tell(spec.Event{Kind: spec.EventDialled, Address: network + " " + address})
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
func (n *Network) Listen(owner Owner, dir, network, address string) (net.Listener, error) {
	l, err := n.listen(owner, dir, network, address)
	if err != nil {
		return nil, err
	}
	l.tell(false)
	return l, nil
}

func (n *Network) listen(owner Owner, dir, network, address string) (*listener, error) {
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
	l := &listener{n: n, owner: owner, name: network + " " + address, addr: at, queue: make(chan *conn, backlog), over: make(chan struct{})}
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
	first := l.endLocked(net.ErrClosed)
	l.n.mu.Unlock()
	if first {
		l.tell(true)
	}
	return nil
}

// tell tells that the listening has begun or ended.
func (l *listener) tell(ended bool) {
	l.owner.Tell(spec.Event{Kind: spec.EventListened, Address: l.name, Ended: ended})
}

// endLocked ends the listening, and resets who waits. It reports whether it went on.
func (l *listener) endLocked(err error) (first bool) {
	l.once.Do(func() {
		l.err, first = err, true
		close(l.over)
		delete(l.n.listeners, l.addr.String())
	})
	for {
		select {
		case c := <-l.queue:
			c.fail(syscall.ECONNRESET)
		default:
			return first
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
func (n *Network) Leave(owner Owner, err error) {
	n.mu.Lock()
	ended := n.loseLocked(owner, err)
	n.mu.Unlock()
	for _, l := range ended {
		l.tell(true)
	}
}

// loseLocked ends what owner has; nil: what anybody has. It returns the listeners.
func (n *Network) loseLocked(owner Owner, err error) (ended []*listener) {
	for _, l := range n.listeners {
		if (owner == nil || l.owner == owner) && l.endLocked(err) {
			ended = append(ended, l)
		}
	}
	for _, c := range n.conns {
		if owner == nil || c.owner == owner {
			c.fail(err)
		}
	}
	n.conns = slices.DeleteFunc(n.conns, func(c *conn) bool { return owner == nil || c.owner == owner })
	return ended
}
