package drivertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// portProgramCases are those in which programs take part, on a kernel.
func portProgramCases() []Case {
	return []Case{
		{Name: "PortsReachPrograms", Rule: "Dial reaches a program that listens, and a program reaches what Listen offers; each is listed with its process.", Need: all(needPorts, needRaw), Run: portsPrograms},
		{Name: "PortsSocketFile", Rule: "Listen on a path makes a socket with the mode 0600, and removes it at the end if it is still that one.", Need: all(needPorts, needNative), Run: portsFile},
		{Name: "PortsKeepToTheWall", Rule: "ConfinedSockets: Dial reaches no unix socket, with a path, an abstract name or through a link, on which a process outside of the place listens.", Need: all(needPorts, needShell, needConfinedSockets), Own: true, Run: portsWall},
	}
}

// greeting are calls that listen on an address, take one connection, send a word to it
// and wait for a byte.
func greeting(family int, addr []byte) []rawcall.Call {
	return []rawcall.Call{
		{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(int64(family)), rawcall.Int(rawcall.Stream)}},
		{Number: rawcall.Bind, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		{Number: rawcall.Listen, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Int(4)}},
		{Number: rawcall.Accept, Args: []rawcall.Arg{rawcall.Result(0)}},
		{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Result(3), rawcall.Bytes([]byte("hello")), rawcall.Int(5)}},
		{Number: rawcall.Read, Args: []rawcall.Arg{rawcall.Result(3), rawcall.Address(1), rawcall.Int(1)}},
	}
}

// visit are calls that connect, take a word and print it.
func visit(connect []rawcall.Call) []rawcall.Call {
	return append(connect,
		rawcall.Call{Number: rawcall.Read, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Address(1), rawcall.Int(5)}},
		rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Address(1), rawcall.Int(5)}},
	)
}

// rawAddress is the address of a listening as programs give it to the kernel.
func rawAddress(l net.Listener) (family int, raw []byte, connect []rawcall.Call) {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		raw = binary.BigEndian.AppendUint16([]byte{rawcall.Inet, 0}, uint16(tcp.Port))
		raw = append(raw, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
		return rawcall.Inet, raw, rawcall.ConnectInet(rawcall.Stream, [4]byte{127, 0, 0, 1}, uint16(tcp.Port))
	}
	name := abstract(l.Addr().String())
	return rawcall.Unix, append([]byte{rawcall.Unix, 0}, name...), rawcall.ConnectUnix(name)
}

// again is an address of the same kind.
func again(address string) string {
	if address == ":0" {
		return address
	}
	return address + "-again"
}

func portsPrograms(ctx context.Context, t T, e *Env) {
	for _, a := range e.addresses() {
		// An address that a listening of ours has had is one that a program can have.
		l := e.listen(ctx, t, a[0], a[1])
		l.Close()
		family, raw, _ := rawAddress(l)
		e.greeted(ctx, t, l.Addr(), greeting(family, raw))

		l = e.listen(ctx, t, a[0], again(a[1]))
		_, _, connect := rawAddress(l)
		visitor := e.Cmd(ctx, e.program(ctx, t, visit(connect)...))
		var said bytes.Buffer
		visitor.Stdout = &said
		if err := visitor.Start(); err != nil {
			t.Fatalf("start: %v", err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatalf("accept a program: %v", err)
		}
		obey(ctx, conn)
		if err := errors.Join(write(conn, "hello"), conn.Close(), visitor.Wait()); err != nil {
			t.Errorf("%v: a program that connects: %v", l.Addr(), err)
		}
		wantText(t, "what it was sent", said.Bytes(), "hello")
	}
}

// greeted dials a program that listens.
func (e *Env) greeted(ctx context.Context, t T, at net.Addr, calls []rawcall.Call) {
	t.Helper()
	address := at.String()
	server := e.Cmd(ctx, e.program(ctx, t, calls...))
	if err := server.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	var p spec.Port
	there := e.Eventually(ctx, func() (ok bool) {
		p, ok = e.listedPort(ctx, t, func(p spec.Port) bool { return strings.HasSuffix(p.Address, address) })
		return ok
	})
	if !there || p.PID <= 0 || p.Name == "" {
		t.Errorf("a program that listens on %s is listed: %v, as %+v; want its process", address, there, p)
	}
	conn, err := e.dial(ctx, at.Network(), address)
	if err != nil {
		t.Fatalf("dial a program: %v", err)
	}
	defer conn.Close()
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "what a program says", got, "hello")
	if err := errors.Join(write(conn, "x"), server.Wait()); err != nil {
		t.Errorf("%s: a program that listens: %v", address, err)
	}
	_, err = conn.Read(got)
	wantError(t, "read from a program that has ended", err, io.EOF)
}

func portsFile(ctx context.Context, t T, e *Env) {
	name, fsys := e.file("s"), e.Sandbox.Files()
	l := e.listen(ctx, t, "unix", name)
	info, err := fsys.Stat(ctx, name, files.StatOptions{})
	if err != nil || info.Mode.Perm() != 0o600 || info.Mode.Type() != fs.ModeSocket {
		t.Errorf("the socket is %v, %v; want one with 0600", info.Mode, err)
	}
	l.Close()
	_, err = fsys.Stat(ctx, name, files.StatOptions{})
	wantError(t, "the socket after its end", err, fs.ErrNotExist)

	l = e.listen(ctx, t, "unix", name)
	if err := fsys.Rename(ctx, name, name+"-away", files.RenameOptions{}); err != nil {
		t.Fatalf("rename: %v", err)
	}
	e.write(ctx, t, name, []byte("mine"), files.WriteOptions{})
	l.Close()
	got, err := fsys.ReadFile(ctx, name)
	if err != nil {
		t.Errorf("what took the name of a socket: %v", err)
	}
	wantText(t, "what took the name of a socket", got, "mine")
	_, err = e.Sandbox.Listen(ctx, "unix", name)
	wantError(t, "listen where a file is", err, spec.ErrExists)
	_, err = e.Sandbox.Dial(ctx, "unix", name)
	wantError(t, "dial a file", err, spec.ErrUnavailable)
	_, err = e.Sandbox.Listen(ctx, "unix", e.file("none")+"/s")
	wantError(t, "listen in a directory that is missing", err, spec.ErrFileNotFound)
	long := strings.Repeat("d", 100) + "/" + name
	if err := fsys.Mkdir(ctx, long[:100], files.MkdirOptions{Parents: true}); err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	e.listen(ctx, t, "unix", long)
	conn, err := e.Sandbox.Dial(ctx, "unix", long)
	if err != nil {
		t.Fatalf("dial a path that fits into no address: %v", err)
	}
	conn.Close()
}

func portsWall(ctx context.Context, t T, e *Env) {
	_, listeners := e.listenOutside(t)
	e.Sandbox = e.Provision(ctx, t, e.Spec())
	listeners, names := e.listenInTheWorkdir(ctx, t, listeners)
	for _, name := range names {
		if conn, err := e.Sandbox.Dial(ctx, "unix", name); err == nil {
			conn.Close()
			t.Errorf("%s was dialled", name)
		} else if !errors.Is(err, spec.ErrPermission) && !errors.Is(err, spec.ErrUnavailable) {
			t.Errorf("%s: %v; want permission or unavailable", name, err)
		}
	}
	wantUntouched(t, listeners)
	for _, l := range listeners {
		if _, ok := e.listedPort(ctx, t, func(p spec.Port) bool { return p.Address == l.name }); ok {
			t.Errorf("%s is listed", l.name)
		}
	}
	e.wantReachedHere(ctx, t, listeners)
}
