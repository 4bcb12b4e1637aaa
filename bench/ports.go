//go:build linux

package main

import (
	"context"
	"io"
	"net"

	"github.com/berth-dev/berth"
)

// source is a server of this machine that sends a gigabyte to who says 'g', and to anybody
// else what he says.
func source(h *harness) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serveSource(conn)
		}
	}()
	return l.Addr().String()
}

func serveSource(conn net.Conn) {
	defer conn.Close()
	var word [1]byte
	if _, err := io.ReadFull(conn, word[:]); err != nil {
		return
	}
	if word[0] != 'g' {
		_, _ = conn.Write(word[:])
		return
	}
	chunk := make([]byte, 1_000_000)
	for range gigabyte / len(chunk) {
		if _, err := conn.Write(chunk); err != nil {
			return
		}
	}
}

// portRows are connections through a place that shares the network of this machine, against
// direct ones: connecting and a byte there and back, and a gigabyte.
func portRows(name string, sb *berth.Sandbox, h *harness) []row {
	address := source(h)
	dial := func(ctx context.Context) (net.Conn, error) { return sb.Dial(ctx, "tcp", address) }
	direct := func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }
	rows := []row{{name: "dial, 1 byte back", backend: name}, {name: "dial 1 GB", backend: name, large: true}}
	for i, word := range []string{"x", "g"} {
		fetch := func(dial func(context.Context) (net.Conn, error)) action {
			return func(ctx context.Context) error {
				conn, err := dial(ctx)
				if err != nil {
					return err
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, word); err != nil {
					return err
				}
				out := &counter{}
				_, err = io.Copy(out, conn)
				if word == "g" && err == nil {
					err = out.want()
				}
				return err
			}
		}
		rows[i].ours, rows[i].against = fetch(dial), []alternative{{name: "direct", run: fetch(direct)}}
	}
	return rows
}
