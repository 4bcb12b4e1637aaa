package berth

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Dial connects to what listens inside the place, as one of its commands could. network is
// "tcp", "tcp4", "tcp6" or "unix"; an empty host is the place's loopback, a path is
// relative to the workdir, "@" begins an abstract name, and the names of other hosts are
// looked up inside.
//
// The Conn has CloseWrite() error, and SetLinger(0) makes its Close a reset. Its Read is
// io.EOF only after the peer has ended its side; a reset is syscall.ECONNRESET, the loss
// of the place ErrUnavailable. Close lets what was written go out, within 10 s, and then is
// io.EOF for the peer as with package net: who has not sent all wants a reset. ctx bounds
// the dialling only.
//
// Where nothing listens the error is ErrUnavailable and syscall.ECONNREFUSED or
// fs.ErrNotExist; a socket that the place's wall keeps from its commands is ErrPermission,
// and what a closed network keeps out of reach ErrUnavailable.
func (sb *Sandbox) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	err := spec.ValidateAddress(network, address, false)
	var dialer driver.Dialer
	if err == nil {
		dialer, err = sb.dialer(ctx)
	}
	if err != nil {
		return nil, sb.wrap(err, "dial", address)
	}
	var conn net.Conn
	err = sb.audited(ctx, spec.AuditRecord{Kind: spec.AuditDial, Path: network + " " + address}, func() error {
		conn, err = dialer.Dial(ctx, network, address)
		return err
	})
	return conn, sb.wrap(err, "dial", address)
}

// Listen listens inside the place, on an address as Dial has it or on port 0 for one that
// is free, and hands out the connections of the place's commands: whatever the caller
// connects them to is offered to all of them. A unix socket gets the mode 0600 and is
// removed at the end. An address in use is ErrExists. The listening ends with Close, and
// with the connection to the place: Accept is ErrUnavailable then. ctx bounds the call
// only.
func (sb *Sandbox) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	err := spec.ValidateAddress(network, address, true)
	var dialer driver.Dialer
	if err == nil {
		dialer, err = sb.dialer(ctx)
	}
	if err != nil {
		return nil, sb.wrap(err, "listen", address)
	}
	var listener net.Listener
	err = sb.audited(ctx, spec.AuditRecord{Kind: spec.AuditListen, Path: network + " " + address}, func() error {
		listener, err = dialer.Listen(ctx, network, address)
		return err
	})
	return listener, sb.wrap(err, "listen", address)
}

// Ports lists what listens inside the place: TCP, and unix stream sockets. Where a place
// shares the network of its machine these are the sockets of its own processes.
func (sb *Sandbox) Ports(ctx context.Context) ([]Port, error) {
	dialer, err := sb.dialer(ctx)
	if err != nil {
		return nil, sb.wrap(err, "list ports", "")
	}
	ports, err := dialer.Ports(ctx)
	return ports, sb.wrap(err, "list ports", "")
}

// idleConns is how long, and how many for one address, HTTPTransport keeps connections.
const (
	idleConnTime = 90 * time.Second
	idleConns    = 16
)

// HTTPTransport returns a new transport for an http.Client that reaches servers inside the
// place: the host of a URL is that of Dial. It uses no proxy of this machine. The caller
// closes its idle connections.
func (sb *Sandbox) HTTPTransport() *http.Transport {
	return &http.Transport{DialContext: sb.Dial, IdleConnTimeout: idleConnTime, MaxIdleConnsPerHost: idleConns}
}

// dialer returns the session as one that reaches ports.
func (sb *Sandbox) dialer(ctx context.Context) (driver.Dialer, error) {
	session, err := sb.session(ctx)
	if err != nil {
		return nil, err
	}
	if dialer, ok := session.(driver.Dialer); ok && session.Caps().Ports {
		return dialer, nil
	}
	return nil, spec.New(spec.CodeUnsupported, "what listens in the place cannot be reached")
}
