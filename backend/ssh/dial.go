package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/spec"
)

const (
	defaultPort        = "22"
	defaultDialTimeout = 15 * time.Second
)

// dial connects and logs in, within the dial timeout. A server that hangs up
// before it has said who it is - sshd does so to some while many log in at once -
// is asked again a few times.
func (o *Options) dial(ctx context.Context) (*ssh.Client, error) {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	const attempts = 5
	for i := 1; ; i++ {
		c, early, err := o.dialOnce(ctx)
		switch {
		case err == nil:
			return c, nil
		case parent.Err() != nil:
			return nil, parent.Err()
		case ctx.Err() != nil:
			return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("no answer from %s within %v", o.Addr, o.DialTimeout), Hint: "check the address, the network and the host's firewall"}
		case !early || i == attempts:
			return nil, err
		}
		pause := 100 * time.Millisecond << i
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// dialOnce makes one attempt. early says that the server hung up before it
// showed its key.
func (o *Options) dialOnce(ctx context.Context) (c *ssh.Client, early bool, err error) {
	keys, err := newHostKeys(o.Addr, o.KnownHostsFiles)
	if err != nil {
		return nil, false, err
	}
	id, err := o.load(ctx, o.home)
	if err != nil {
		return nil, false, err
	}
	defer id.close()
	conn, err := o.Dial(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, false, o.unreachable(err)
	}
	// The handshake takes no context: its end closes the connection.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	config := &ssh.ClientConfig{
		User:              o.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(id.signers...)},
		HostKeyCallback:   keys.callback,
		HostKeyAlgorithms: keys.algorithms,
	}
	sc, chans, reqs, err := ssh.NewClientConn(conn, o.Addr, config)
	if err == nil && !stop() {
		sc.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		conn.Close()
		hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
		early = hungUp && !keys.accepted && keys.refused == nil
		return nil, early, o.noHandshake(err, keys, id)
	}
	return ssh.NewClient(sc, chans, reqs), false, nil
}

// unreachable says why no connection came about.
func (o *Options) unreachable(err error) error {
	host, port, _ := net.SplitHostPort(o.Addr)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("cannot resolve host %q: %s", host, dns.Err), Hint: "check the spelling: getent hosts " + host}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%s: connection refused", o.Addr), Hint: fmt.Sprintf("check that sshd runs on %s and listens on port %s", host, port)}
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("connect to %s: %w", o.Addr, err), Hint: "check the address, the network and the host's firewall"}
}

// noHandshake says why a connection was of no use.
func (o *Options) noHandshake(err error, keys *hostKeys, id *identity) error {
	var negotiation *ssh.AlgorithmNegotiationError
	switch {
	case keys.refused != nil:
		return keys.refused
	case errors.As(err, &negotiation) && negotiation.What == "host key":
		return keys.noCommonKey(negotiation.RequestedAlgorithms)
	case keys.accepted && strings.Contains(err.Error(), "unable to authenticate"):
		return o.notLoggedIn(id)
	case keys.accepted:
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("log in to %s as %s: %w", o.Addr, o.User, err), Hint: "see the log of the host's sshd; it hangs up after too many keys, so name the right one"}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("%s hangs up before it shows its key", o.Addr), Hint: "see the log of the host's sshd: MaxStartups, access rules, fail2ban"}
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("handshake with %s: %w", o.Addr, err), Hint: "check that an SSH server listens there: ssh -v " + o.Addr}
}

func (o *Options) notLoggedIn(id *identity) error {
	text := fmt.Sprintf("%s refuses to log in %s with %s", o.Addr, o.User, strings.Join(clipList(id.tried), ", "))
	if len(id.locked) > 0 {
		text += "; not tried, for want of a passphrase: " + strings.Join(clipList(id.locked), ", ")
	}
	host, port, _ := net.SplitHostPort(o.Addr)
	return &spec.Error{Code: spec.CodePermission, Err: errors.New(text), Hint: fmt.Sprintf("check the user and install the key: ssh-copy-id -p %s %s@%s", port, o.User, host)}
}
