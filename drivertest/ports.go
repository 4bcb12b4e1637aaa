package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/spec"
)

// portCases are about connections into a place and out of it. Most of them need no
// program inside: what Listen offers there, Dial reaches.
func portCases() []Case {
	return []Case{
		{Name: "PortsCarryEveryByte", Rule: "A connection carries every byte in both directions at once, over TCP and unix sockets with a path or an abstract name.", Need: needPorts, Run: portsCarry},
		{Name: "PortsKeepHalfClose", Rule: "CloseWrite is io.EOF for the peer, which goes on sending; in each direction. It is io.EOF for nobody who has not been told.", Need: needPorts, Run: portsHalfClose},
		{Name: "PortsTellAReset", Rule: "A connection that is reset is ECONNRESET for a reader and an error for a writer, and never io.EOF; in each direction.", Need: needPorts, Run: portsReset},
		{Name: "PortsManyConnections", Rule: "Hundreds of connections at once are served, each with its own bytes, and leave room for as many again.", Need: needPorts, Run: portsMany},
		{Name: "PortsNobodyListens", Rule: "Where nothing listens Dial is unavailable, with ECONNREFUSED for a port and ErrNotExist for a path; what is no address is refused.", Need: needPorts, Run: portsRefused},
		{Name: "PortsEndWithThePlace", Rule: "The loss of the place is unavailable for whoever reads, writes or accepts, and never io.EOF.", Need: needPorts, Run: portsEnd},
		{Name: "PortsHoldBack", Rule: "Who does not read stops who writes: what is under way is bounded, and nothing of it is lost.", Need: needPorts, Run: portsHoldBack},
		{Name: "PortsHaveDeadlines", Rule: "A deadline ends a Read with os.ErrDeadlineExceeded and costs no byte; Close ends it with net.ErrClosed.", Need: needPorts, Run: portsDeadlines},
		{Name: "PortsDialIsBounded", Rule: "A context bounds the dialling and the listening, and not the connection.", Need: needPorts, Run: portsBounded},
		{Name: "PortsListenOnce", Rule: "An address in use is exists; after Close it is free, Accept is net.ErrClosed, and nobody listens.", Need: needPorts, Run: portsListen},
		{Name: "PortsAreListed", Rule: "Ports lists what listens inside, and nothing of what does outside.", Need: needPorts, Run: portsListed},
	}
}

func needPorts(c spec.Caps) string {
	if !c.Ports {
		return "ports"
	}
	return ""
}

// stream is what a connection of a Sandbox is.
type stream interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

// listen listens inside until the case ends, or its time does.
func (e *Env) listen(ctx context.Context, t T, network, address string) net.Listener {
	t.Helper()
	l, err := e.Sandbox.Listen(ctx, network, address)
	if err != nil {
		t.Fatalf("listen on %s %q: %v", network, address, err)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() }) // whoever accepts then learns of it
	e.Cleanup(func(context.Context) error {
		stop()
		l.Close()
		return nil
	})
	return l
}

// dial dials inside. Nobody waits for the connection past the end of ctx.
func (e *Env) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := e.Sandbox.Dial(ctx, network, address)
	if err == nil {
		obey(ctx, conn)
	}
	return conn, err
}

// obey lets nobody wait for a connection past the end of ctx.
func obey(ctx context.Context, conn net.Conn) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
}

// pair makes a connection through the place, of which both ends are here.
func (e *Env) pair(ctx context.Context, t T, l net.Listener) (dialled, accepted stream) {
	t.Helper()
	type answer struct {
		conn net.Conn
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		conn, err := l.Accept()
		got <- answer{conn, err}
	}()
	out, err := e.dial(ctx, l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatalf("dial %s: %v", l.Addr(), err)
	}
	var in answer
	select {
	case in = <-got:
	case <-ctx.Done():
		in.err = ctx.Err()
	}
	if in.err != nil {
		t.Fatalf("accept on %s: %v", l.Addr(), in.err)
	}
	obey(ctx, in.conn)
	for _, conn := range []net.Conn{out, in.conn} {
		e.Cleanup(func(context.Context) error { conn.Close(); return nil })
	}
	return out.(stream), in.conn.(stream)
}

// addresses are one of each kind of address.
func (e *Env) addresses() [][2]string {
	return [][2]string{{"tcp", ":0"}, {"unix", e.file("s")}, {"unix", "@" + e.file("s")}}
}

func portsCarry(ctx context.Context, t T, e *Env) {
	for i, a := range e.addresses() {
		size := 10 << 20
		if i > 0 {
			size = 1 << 20
		}
		l := e.listen(ctx, t, a[0], a[1])
		one, other := e.pair(ctx, t, l)
		var all sync.WaitGroup
		for k, ends := range [][2]stream{{one, other}, {other, one}} {
			data := noise(size, uint64(10*i+k))
			all.Go(func() {
				if n, err := ends[0].Write(data); err != nil || n != len(data) {
					t.Errorf("%s: write %d: %d, %v", a[1], k, n, err)
				}
				if err := ends[0].CloseWrite(); err != nil {
					t.Errorf("%s: close the side: %v", a[1], err)
				}
			})
			all.Go(func() {
				got, err := io.ReadAll(ends[1])
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: direction %d: %d bytes of %d, equal %v, %v", a[1], k, len(got), len(data), bytes.Equal(got, data), err)
				}
			})
		}
		all.Wait()
		if i == 0 && (one.RemoteAddr().String() != l.Addr().String() || other.RemoteAddr().String() != one.LocalAddr().String()) {
			t.Errorf("the ends are %v-%v and %v-%v of %v", one.LocalAddr(), one.RemoteAddr(), other.LocalAddr(), other.RemoteAddr(), l.Addr())
		}
	}
}

func portsHalfClose(ctx context.Context, t T, e *Env) {
	for _, a := range e.addresses() {
		l := e.listen(ctx, t, a[0], a[1])
		for _, turned := range []bool{false, true} {
			first, last := e.pair(ctx, t, l)
			if turned {
				first, last = last, first
			}
			if err := errors.Join(write(first, "question"), first.CloseWrite()); err != nil {
				t.Fatalf("%s: %v", a[1], err)
			}
			wantRead(t, a[1]+": the question", last, "question")
			if _, err := first.Write([]byte("more")); err == nil {
				t.Errorf("%s: a side that is closed takes more", a[1])
			}
			for _, word := range []string{"an", "swer"} {
				if err := write(last, word); err != nil {
					t.Errorf("%s: write after the other side has ended: %v", a[1], err)
				}
			}
			if err := last.Close(); err != nil {
				t.Errorf("%s: close: %v", a[1], err)
			}
			wantRead(t, a[1]+": the answer", first, "answer")
		}
	}
}

func write(conn net.Conn, text string) error {
	_, err := conn.Write([]byte(text))
	return err
}

// wantRead reads to the end.
func wantRead(t T, what string, conn net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	wantText(t, what, got, want)
}

func portsReset(ctx context.Context, t T, e *Env) {
	l := e.listen(ctx, t, "tcp", ":0")
	for _, turned := range []bool{false, true} {
		first, last := e.pair(ctx, t, l)
		if turned {
			first, last = last, first
		}
		if err := errors.Join(write(first, "x"), first.SetLinger(0)); err != nil {
			t.Fatalf("%v", err)
		}
		if _, err := io.ReadFull(last, make([]byte, 1)); err != nil {
			t.Errorf("the byte before the reset: %v", err)
		}
		first.Close()
		_, err := last.Read(make([]byte, 1))
		wantError(t, "read after a reset", err, syscall.ECONNRESET)
		if !e.Eventually(ctx, func() bool { return write(last, "y") != nil }) {
			t.Errorf("who writes does not learn of a reset")
		}
	}
}

func portsMany(ctx context.Context, t T, e *Env) {
	const connections, rounds = 200, 2
	l := e.listen(ctx, t, "tcp", ":0")
	go func() { // an echo
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			obey(ctx, conn)
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	for range rounds {
		var all sync.WaitGroup
		together := make(chan struct{})
		var there sync.WaitGroup
		there.Add(connections)
		for i := range connections {
			all.Go(func() {
				conn, err := e.dial(ctx, "tcp", l.Addr().String())
				there.Done()
				if err != nil {
					t.Errorf("dial %d: %v", i, err)
					return
				}
				defer conn.Close()
				<-together
				text := fmt.Sprintf("this is connection %d", i)
				if err := errors.Join(write(conn, text), conn.(stream).CloseWrite()); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
				wantRead(t, "an echo", conn, text)
			})
		}
		there.Wait()
		close(together)
		all.Wait()
	}
}

func portsRefused(ctx context.Context, t T, e *Env) {
	l := e.listen(ctx, t, "tcp", ":0")
	free := l.Addr().String()
	l.Close()
	_, err := e.Sandbox.Dial(ctx, "tcp", free)
	wantError(t, "dial a port where nobody listens", err, spec.ErrUnavailable, syscall.ECONNREFUSED)
	for _, name := range []string{e.file("none"), "/" + e.file("none"), e.file("none") + "/s"} {
		_, err = e.Sandbox.Dial(ctx, "unix", name)
		wantError(t, "dial a path that is missing", err, spec.ErrUnavailable, fs.ErrNotExist)
	}
	// Behind a wall, who has an abstract name is not said.
	if _, err = e.Sandbox.Dial(ctx, "unix", "@"+e.file("none")); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, spec.ErrPermission) {
		t.Errorf("dial an abstract name that nobody has: %v; want it refused", err)
	}
	for _, a := range [][2]string{{"udp", ":53"}, {"tcp", "80"}, {"tcp", ":0"}, {"tcp", ":65536"}, {"tcp", "a b:80"}, {"tcp", "127.0.0.1:http"}, {"", ""}} {
		_, err := e.Sandbox.Dial(ctx, a[0], a[1])
		wantError(t, fmt.Sprintf("dial %q %q", a[0], a[1]), err, spec.ErrInvalid)
	}
	for _, name := range []string{"", "a\x00b"} {
		_, err := e.Sandbox.Dial(ctx, "unix", name)
		wantError(t, fmt.Sprintf("dial %q", name), err, spec.ErrInvalidPath)
	}
}

func portsEnd(ctx context.Context, t T, e *Env) {
	e.Sandbox = e.Provision(ctx, t, e.Spec())
	l := e.listen(ctx, t, "tcp", ":0")
	one, other := e.pair(ctx, t, l)
	ended := make(chan error, 3)
	for _, conn := range []stream{one, other} {
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
	}
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := e.Sandbox.Destroy(ctx); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	for range cap(ended) {
		select {
		case err := <-ended:
			wantError(t, "after the end of the place", err, spec.ErrUnavailable)
		case <-ctx.Done():
			t.Fatalf("somebody still waits for a place that has ended")
		}
	}
	if err := write(one, "x"); err == nil {
		t.Errorf("a connection into a place that has ended takes bytes")
	}
	_, err := e.Sandbox.Dial(ctx, "tcp", l.Addr().String())
	wantError(t, "dial into a place that has ended", err, spec.ErrNotFound)
}

// maxUnderWay is more than any part of a connection holds.
const maxUnderWay = 128 << 20

func portsHoldBack(ctx context.Context, t T, e *Env) {
	one, other := e.pair(ctx, t, e.listen(ctx, t, "tcp", ":0"))
	data := noise(1<<20, 5)
	written := 0
	for pauses := 0; pauses < 2; {
		_ = one.SetWriteDeadline(time.Now().Add(time.Second))
		at := written % len(data)
		n, err := one.Write(data[at:])
		if written += n; written > maxUnderWay {
			t.Fatalf("%d bytes went into a connection that nobody reads", written)
		}
		switch {
		case n > 0:
			pauses = 0
		case errors.Is(err, os.ErrDeadlineExceeded):
			pauses++
		default:
			t.Fatalf("write: %v", err)
		}
	}
	deadline, _ := ctx.Deadline()
	_ = one.SetWriteDeadline(deadline)
	closed := make(chan error, 1)
	go func() { closed <- one.CloseWrite() }()
	got, err := io.ReadAll(other)
	if err != nil || len(got) != written {
		t.Errorf("%d bytes have come of %d, %v", len(got), written, err)
	}
	for rest := got; len(rest) > 0; rest = rest[min(len(rest), len(data)):] {
		if n := min(len(rest), len(data)); !bytes.Equal(rest[:n], data[:n]) {
			t.Errorf("they are not those that were sent")
			break
		}
	}
	if err := <-closed; err != nil {
		t.Errorf("close the side: %v", err)
	}
}

func portsDeadlines(ctx context.Context, t T, e *Env) {
	one, other := e.pair(ctx, t, e.listen(ctx, t, "tcp", ":0"))
	var got []byte
	go func() {
		for i := range 20 {
			_ = write(other, fmt.Sprintf("%d,", i))
			time.Sleep(5 * time.Millisecond)
		}
		_ = other.CloseWrite()
	}()
	timeouts := 0
	for {
		_ = one.SetReadDeadline(time.Now().Add(3 * time.Millisecond))
		buf := make([]byte, 2)
		n, err := one.Read(buf)
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		if err != nil {
			timeouts++
		}
		if ctx.Err() != nil {
			t.Fatalf("no end after %d timeouts", timeouts)
		}
	}
	wantText(t, "what was read between deadlines", got, "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,")
	_ = one.SetDeadline(time.Unix(1, 0))
	_, err := one.Read(make([]byte, 1))
	wantError(t, "read after its deadline", err, os.ErrDeadlineExceeded)
	wantError(t, "write after its deadline", write(one, "x"), os.ErrDeadlineExceeded)
	_ = one.SetDeadline(time.Time{})
	if err := write(one, "x"); err != nil {
		t.Errorf("write without a deadline: %v", err)
	}
	_, again := e.pair(ctx, t, e.listen(ctx, t, "tcp", ":0"))
	failed := make(chan error, 1)
	go func() {
		_, err := again.Read(make([]byte, 1))
		failed <- err
	}()
	time.Sleep(10 * time.Millisecond)
	again.Close()
	wantError(t, "read of a connection that is closed", <-failed, net.ErrClosed)
	wantError(t, "write to it", write(again, "x"), net.ErrClosed)
}

func portsBounded(ctx context.Context, t T, e *Env) {
	l := e.listen(ctx, t, "tcp", ":0")
	over, cancel := context.WithCancel(ctx)
	one, err := e.Sandbox.Dial(over, "tcp", l.Addr().String())
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer one.Close()
	obey(ctx, one)
	other, err := l.Accept()
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	defer other.Close()
	obey(ctx, other)
	second, err := e.Sandbox.Listen(over, "tcp", ":0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer second.Close()
	cancel()
	if err := errors.Join(write(one, "still here"), one.(stream).CloseWrite()); err != nil {
		t.Errorf("write after the context of the dialling: %v", err)
	}
	wantRead(t, "after the context of the dialling", other, "still here")
	a, _ := e.pair(ctx, t, second)
	if err := write(a, "x"); err != nil {
		t.Errorf("a listening after its context: %v", err)
	}
	_, err = e.Sandbox.Dial(over, "tcp", l.Addr().String())
	wantError(t, "dial under a context that has ended", err, context.Canceled)
	_, err = e.Sandbox.Listen(over, "tcp", ":0")
	wantError(t, "listen under a context that has ended", err, context.Canceled)
}

func portsListen(ctx context.Context, t T, e *Env) {
	for _, a := range e.addresses() {
		l := e.listen(ctx, t, a[0], a[1])
		address := l.Addr().String()
		if a[0] == "unix" {
			address = a[1]
		}
		_, err := e.Sandbox.Listen(ctx, a[0], address)
		wantError(t, "listen twice on "+address, err, spec.ErrExists)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			waiting <- err
		}()
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		wantError(t, "accept after close", <-waiting, net.ErrClosed)
		_, err = e.Sandbox.Dial(ctx, a[0], address)
		wantError(t, "dial after close", err, spec.ErrUnavailable)
		again := e.listen(ctx, t, a[0], address)
		one, other := e.pair(ctx, t, again)
		if err := errors.Join(write(one, "again"), one.CloseWrite()); err != nil {
			t.Errorf("write: %v", err)
		}
		wantRead(t, "the second listening", other, "again")
	}
}

// listedPort finds one among the ports of the place.
func (e *Env) listedPort(ctx context.Context, t T, match func(spec.Port) bool) (spec.Port, bool) {
	t.Helper()
	ports, err := e.Sandbox.Ports(ctx)
	if err != nil {
		t.Fatalf("ports: %v", err)
	}
	i := slices.IndexFunc(ports, match)
	if i < 0 {
		return spec.Port{}, false
	}
	return ports[i], true
}

func portsListed(ctx context.Context, t T, e *Env) {
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen outside: %v", err)
	}
	defer outside.Close()
	is := func(network, address string) func(spec.Port) bool {
		return func(p spec.Port) bool { return p.Network == network && strings.HasSuffix(p.Address, address) }
	}
	if p, ok := e.listedPort(ctx, t, is("tcp4", outside.Addr().String())); ok && p.Address != "" {
		t.Errorf("a port of this test is listed: %+v", p)
	}
	names := e.addresses()
	for _, a := range names {
		l := e.listen(ctx, t, a[0], a[1])
		network, address := a[0], a[1]
		if network == "tcp" {
			network, address = "tcp4", l.Addr().String()
		}
		if _, ok := e.listedPort(ctx, t, is(network, address)); !ok {
			t.Errorf("%s %s is not listed", network, address)
		}
		l.Close()
		if p, ok := e.listedPort(ctx, t, is(network, address)); ok {
			t.Errorf("%+v is listed after its end", p)
		}
	}
}
