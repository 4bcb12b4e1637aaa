// Package remoteport is connections into a place, and out of it, over the wire: each is one
// stream of the session, framed so that its ends are told from the loss of the session.
// The guest lives among untrusted code: what it says of an address is checked, and what it
// sends waits in the stream's window until it is read.
package remoteport

import (
	"context"
	"net"
	"net/netip"

	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Client asks one guest for its ports. It is safe for concurrent use.
type Client struct{ s ask.Session }

// New returns the ports of the place that s is a session of.
func New(s ask.Session) *Client { return &Client{s} }

// Dial connects to an address inside. ctx bounds the dialling only.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := spec.ValidateAddress(network, address, false); err != nil {
		return nil, err
	}
	req := &wire.Request{Op: wire.OpDial, Port: &wire.PortRequest{Network: network, Address: wire.Bytes(address)}}
	conn, err := c.connect(ctx, req, network)
	if c.s.Repeatable(err) {
		conn, err = c.connect(ctx, req, network) // the first one has ended with its stream
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// connect makes a request that is answered by a connection of a network.
func (c *Client) connect(ctx context.Context, req *wire.Request, network string) (*conn, error) {
	st, said, release, err := c.open(ctx, req, network)
	if err != nil {
		return nil, err
	}
	return newConn(st, said, release, c.s.ChunkBytes()), nil
}

// open makes a request that is answered by the name of a socket, on a stream that lives
// until release is called. ctx bounds the call only.
func (c *Client) open(ctx context.Context, req *wire.Request, network string) (st ask.Stream, said *wire.Conn, release context.CancelFunc, err error) {
	own, release := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, release)
	st, err = c.s.Open(own, req, ask.Reads)
	if err == nil {
		if said, err = readConn(st, network); err != nil {
			err = st.Failed(own, err, ask.Reads)
			st.End()
		} else if !stop() {
			err = ctx.Err()
			st.End()
		}
	}
	if err == nil {
		return st, said, release, nil
	}
	stop()
	release()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, nil, nil, err
}

func readConn(st ask.Stream, network string) (*wire.Conn, error) {
	reply, err := wire.ReadReply(st)
	if err != nil {
		return nil, err
	}
	if reply.Conn == nil {
		return nil, ask.Violation("a connection without its ends")
	}
	return reply.Conn, reply.Conn.Check(network)
}

// addressOf is a checked address as package net has it.
func addressOf(network string, text wire.Bytes) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Name: string(text), Net: network}
	}
	a, err := netip.ParseAddrPort(string(text))
	if err != nil {
		return &net.TCPAddr{}
	}
	return net.TCPAddrFromAddrPort(a)
}
