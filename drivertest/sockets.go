package drivertest

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/drivertest/internal/rawcall"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// socketCases are about the sockets by which commands reach others.
func socketCases() []Case {
	return []Case{
		{Name: "SocketsOutsideAreOutOfReach", Rule: "ConfinedSockets: no command can connect to a unix socket, with a path or an abstract one, on which a process outside of the place listens; nor send to one.", Need: all(needShell, needRaw, needConfinedSockets), Own: true, Run: socketsOutside},
		{Name: "SocketsAmongCommandsWork", Rule: "Unix sockets among the commands of a place work, by whatever name, and each listener sees the connections that were made to it and no others; or the notice says that there are none.", Need: all(needShell, needRaw), Run: socketsAmong},
		{Name: "LoopbackAmongCommandsWorks", Rule: "A command connects to what another one listens on, on the place's own loopback.", Need: all(needShell, needRaw), Run: socketsLoopback},
	}
}

func needConfinedSockets(c spec.Caps) string {
	if !c.ConfinedSockets {
		return "confined_sockets"
	}
	return ""
}

// hostSocket is a unix socket of this process.
type hostSocket struct {
	name    string
	reached atomic.Int64 // connections or messages
}

// listenHere listens on a name until the case ends.
func (e *Env) listenHere(t T, name string) *hostSocket {
	t.Helper()
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &hostSocket{name: name}
	e.Cleanup(func(context.Context) error { return l.Close() })
	s.open(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			s.reached.Add(1)
			c.Close()
		}
	}()
	return s
}

// receiveHere receives messages on a name until the case ends.
func (e *Env) receiveHere(t T, name string) *hostSocket {
	t.Helper()
	c, err := net.ListenPacket("unixgram", name)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &hostSocket{name: name}
	e.Cleanup(func(context.Context) error { return errors.Join(c.Close(), removeIfThere(name)) })
	s.open(t)
	go func() {
		for {
			if _, _, err := c.ReadFrom(make([]byte, 16)); err != nil {
				return // it was closed
			}
			s.reached.Add(1)
		}
	}()
	return s
}

// open lets everybody connect to the socket who finds it.
func (s *hostSocket) open(t T) {
	t.Helper()
	if strings.HasPrefix(s.name, "@") {
		return
	}
	if err := os.Chmod(s.name, 0o777); err != nil {
		t.Fatalf("open the socket: %v", err)
	}
}

func removeIfThere(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// listenOutside listens on this machine as an engine would: on a path in a directory that it
// makes and, where there are such, on an abstract name.
func (e *Env) listenOutside(t T) (dir string, listeners []*hostSocket) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-conform-")
	if err != nil {
		t.Fatalf("a directory: %v", err)
	}
	e.Cleanup(func(context.Context) error { return os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatalf("a directory: %v", err)
	}
	listeners = []*hostSocket{e.listenHere(t, filepath.Join(dir, "docker.sock"))}
	if runtime.GOOS == "linux" {
		listeners = append(listeners, e.listenHere(t, "@berth-conform-"+randomHex()))
	}
	return dir, listeners
}

// listenInTheWorkdir adds a listener, and a link to the first one, in the workdir of a place
// that shows a directory of this machine: they are made while it runs. names are all by
// which something inside may try to reach one.
func (e *Env) listenInTheWorkdir(ctx context.Context, t T, listeners []*hostSocket) (all []*hostSocket, names []string) {
	t.Helper()
	mark := e.file("mark")
	e.write(ctx, t, mark, nil, files.WriteOptions{})
	inside := strings.TrimSuffix(string(e.Sh(ctx, t, "pwd").Stdout), "\n")
	if _, err := os.Stat(filepath.Join(inside, mark)); err == nil {
		e.Sh(ctx, t, "ln -s "+listeners[0].name+" link")
		listeners = append(listeners, e.listenHere(t, filepath.Join(inside, "s")))
	}
	names = []string{"s", "link"}
	for _, l := range listeners {
		names = append(names, l.name)
	}
	return listeners, names
}

// wantUntouched checks that nobody has reached the sockets.
func wantUntouched(t T, sockets []*hostSocket) {
	t.Helper()
	for _, s := range sockets {
		if n := s.reached.Load(); n != 0 {
			t.Errorf("%s was reached %d times from inside", s.name, n)
		}
	}
}

// wantReachedHere checks that each of the listeners works: not to have been reached from
// inside says something.
func (e *Env) wantReachedHere(ctx context.Context, t T, listeners []*hostSocket) {
	t.Helper()
	for _, l := range listeners {
		c, err := net.Dial("unix", l.name)
		if err != nil {
			t.Errorf("from outside: %v", err)
			continue
		}
		c.Close()
		if !e.Eventually(ctx, func() bool { return l.reached.Load() > 0 }) {
			t.Errorf("%s does not accept", l.name)
		}
	}
}

func socketsOutside(ctx context.Context, t T, e *Env) {
	dir, listeners := e.listenOutside(t)
	receivers := []*hostSocket{e.receiveHere(t, filepath.Join(dir, "log"))}
	e.Sandbox = e.Provision(ctx, t, e.Spec())
	listeners, names := e.listenInTheWorkdir(ctx, t, listeners)
	for _, name := range names {
		e.wantNoWay(ctx, t, name, rawcall.ConnectUnix(abstract(name)))
	}
	for _, r := range receivers {
		addr := append(append([]byte{rawcall.Unix, 0}, r.name...), 0)
		e.wantNoWay(ctx, t, r.name, []rawcall.Call{
			{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(rawcall.Unix), rawcall.Int(rawcall.Datagram)}},
			{Number: rawcall.SendTo, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Bytes([]byte("x")), rawcall.Int(1), rawcall.Int(0), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		})
	}
	wantUntouched(t, append(receivers, listeners...))
	e.wantReachedHere(ctx, t, listeners)
}

// abstract turns a name with an @ into the one with a NUL.
func abstract(name string) string {
	if rest, ok := strings.CutPrefix(name, "@"); ok {
		return "\x00" + rest
	}
	return name
}

// wantNoWay runs calls inside that are to end with the error of somebody who finds nobody
// there, or is not let in.
func (e *Env) wantNoWay(ctx context.Context, t T, name string, calls []rawcall.Call) {
	t.Helper()
	const (
		permission = 1
		missing    = 2
		access     = 13
		refused    = 111
	)
	switch r := e.Exec(ctx, t, []string{e.program(ctx, t, calls...)}, berth.ExecOptions{}); r.ExitCode {
	case permission, missing, access, refused:
	default:
		t.Errorf("%s: the calls end with %d %q; want EPERM, ENOENT, EACCES or ECONNREFUSED", name, r.ExitCode, r.Stderr)
	}
}

// served are calls that listen on an address, connect to it and accept that; the last one
// is to fail, as there is no second connection.
func served(family int, addr []byte) []rawcall.Call {
	const nonblock = 0o4000
	return []rawcall.Call{
		{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(int64(family)), rawcall.Int(rawcall.Stream | nonblock)}},
		{Number: rawcall.Bind, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		{Number: rawcall.Listen, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Int(4)}},
		{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(int64(family)), rawcall.Int(rawcall.Stream)}},
		{Number: rawcall.Connect, Args: []rawcall.Arg{rawcall.Result(3), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		{Number: rawcall.Accept, Args: []rawcall.Arg{rawcall.Result(0)}},
		{Number: rawcall.Accept, Args: []rawcall.Arg{rawcall.Result(0)}},
	}
}

// noSecond is how a program of served ends: EAGAIN, as nobody else has connected.
const noSecond = 11

func socketsAmong(ctx context.Context, t T, e *Env) {
	st, err := e.Sandbox.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	if strings.Contains(st.Notice, "unix sockets") {
		t.Logf("the notice says: %s", st.Notice)
		return
	}
	dir := strings.TrimSuffix(string(e.Sh(ctx, t, "pwd").Stdout), "\n")
	for what, name := range map[string]string{
		"relative": e.file("s"), "absolute": filepath.Join(dir, e.file("s")), "abstract": "@" + randomHex(),
	} {
		addr := append([]byte{rawcall.Unix, 0}, abstract(name)...)
		if r := e.Exec(ctx, t, []string{e.program(ctx, t, served(rawcall.Unix, addr)...)}, berth.ExecOptions{}); r.ExitCode != noSecond {
			t.Errorf("%s: the program ends with %d; want %d, a connection and no second one", what, r.ExitCode, noSecond)
		}
	}
	// Two commands: one listens until the other has come.
	name := e.file("two")
	addr := append([]byte{rawcall.Unix, 0}, name...)
	server := e.Cmd(ctx, e.program(ctx, t,
		rawcall.Call{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(rawcall.Unix), rawcall.Int(rawcall.Stream)}},
		rawcall.Call{Number: rawcall.Bind, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		rawcall.Call{Number: rawcall.Listen, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Int(4)}},
		rawcall.Call{Number: rawcall.Accept, Args: []rawcall.Arg{rawcall.Result(0)}},
		rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Result(3), rawcall.Bytes([]byte("hello")), rawcall.Int(5)}},
	))
	if err := server.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	client := e.program(ctx, t,
		rawcall.Call{Number: rawcall.Socket, Args: []rawcall.Arg{rawcall.Int(rawcall.Unix), rawcall.Int(rawcall.Stream)}},
		rawcall.Call{Number: rawcall.Connect, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Bytes(addr), rawcall.Int(int64(len(addr)))}},
		rawcall.Call{Number: rawcall.Read, Args: []rawcall.Arg{rawcall.Result(0), rawcall.Address(1), rawcall.Int(5)}},
		rawcall.Call{Number: rawcall.Write, Args: []rawcall.Arg{rawcall.Int(1), rawcall.Address(1), rawcall.Int(5)}},
	)
	var r *berth.Result
	if !e.Eventually(ctx, func() bool {
		r = e.Exec(ctx, t, []string{client}, berth.ExecOptions{})
		return r.ExitCode == 0
	}) {
		t.Errorf("no command reached the other one: %d", r.ExitCode)
	}
	wantText(t, "what the other one has sent", r.Stdout, "hello")
	if err := server.Wait(); err != nil {
		t.Errorf("the listener: %v", err)
	}
}

func socketsLoopback(ctx context.Context, t T, e *Env) {
	const inUse = 98
	for port := uint16(21_000); ; port += 7 {
		addr := binary.BigEndian.AppendUint16([]byte{rawcall.Inet, 0}, port)
		addr = append(addr, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
		r := e.Exec(ctx, t, []string{e.program(ctx, t, served(rawcall.Inet, addr)...)}, berth.ExecOptions{})
		if r.ExitCode == inUse && port < 21_700 {
			continue
		}
		if r.ExitCode != noSecond {
			t.Errorf("the program ends with %d; want %d, a connection and no second one", r.ExitCode, noSecond)
		}
		return
	}
}
