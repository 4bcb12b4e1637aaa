//go:build linux

package docker_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"
)

// A published port is reached on the engine's machine; its number is the engine's choice
// where none is asked for, and is looked up. One that is taken fails the provision and
// leaves nothing.
func TestPublishedPorts(t *testing.T) {
	needLocal(t)
	o, ctx := testOptions(t), testContext(t)
	d := newDriver(t, o)
	s := busybox(t)
	s.Network = spec.NetworkOpen
	s.Ports = []spec.PublishedPort{{Container: 9000, Protocol: spec.UDP}, {Container: 8080}}
	sb := provision(t, d, s)
	ports, err := sb.PublishedPorts(ctx)
	if err != nil || len(ports) != 2 || ports[0].Host == 0 || ports[1].Host == 0 {
		t.Fatalf("published: %+v, %v", ports, err)
	}
	want := []spec.PublishedPort{{Container: 8080, Address: "127.0.0.1", Protocol: spec.TCP, Host: ports[0].Host}, {Container: 9000, Address: "127.0.0.1", Protocol: spec.UDP, Host: ports[1].Host}}
	if diff := cmp.Diff(want, ports); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	sh(t, sb, "nc -ll -p 8080 -e echo 'from inside' >/dev/null 2>&1 &")
	addr, err := sb.MappedPort(ctx, 8080)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the published port answers", func() bool {
		var conn net.Conn
		var err error
		engine.Within(t, func() { conn, err = net.DialTimeout("tcp", addr.String(), time.Second) })
		if err != nil {
			return false
		}
		defer conn.Close()
		text, err := io.ReadAll(conn)
		return err == nil && string(text) == "from inside\n"
	})
	_, err = sb.MappedPort(ctx, 9000) // that is UDP
	wantIs(t, "a port that is not published", err, spec.ErrInvalid)

	taken := busybox(t)
	taken.Key, taken.Network, taken.Ports = "taken", spec.NetworkOpen, []spec.PublishedPort{{Container: 80, Host: int(addr.Port())}}
	_, err = berth.Provision(ctx, d, taken)
	if !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprint(addr.Port())) || strings.Contains(err.Error(), "\n") {
		t.Errorf("a port that is taken: %v; want unavailable, with the port", err)
	}
	if owned, err := d.Owned(ctx); err != nil || len(owned) != 1 {
		t.Errorf("after a port that is taken: %+v, %v; want the first place alone", owned, err)
	}
	// Other optional interfaces of the session are still there.
	if _, err := sb.Terminals(ctx); err != nil {
		t.Errorf("terminals: %v", err)
	}
}

// abstractName returns the guest's socket, as the kernel lists it.
func abstractName(t *testing.T, sb *berth.Sandbox) string {
	t.Helper()
	c, err := engine.Client(t).ContainerInspect(testContext(t), sb.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Container.Config.Labels["dev.berth.listen"]
}

// In a network that is shared, with the machine or with another container, the guest's
// socket is within reach of others: it answers none of them, and what another puts in its
// place is not spoken to.
func TestSharedNetwork(t *testing.T) {
	needLocal(t)
	o, ctx := testOptions(t), testContext(t)
	d := newDriver(t, o)
	s := busybox(t)
	s.Key, s.Network, s.NetworkMode = "host", spec.NetworkOpen, "host"
	sb := provision(t, d, s)
	name := abstractName(t, sb)
	var host, table string
	var conn net.Conn
	var listener net.Listener
	engine.Within(t, func() {
		listener, _ = net.Listen("tcp", "127.0.0.1:0")
		host, _ = os.Readlink("/proc/thread-self/ns/net")
		text, _ := os.ReadFile("/proc/thread-self/net/unix")
		table = string(text)
		conn, _ = net.Dial("unix", "@"+name)
	})
	if host == "" || sh(t, sb, "readlink /proc/self/ns/net") != host {
		t.Error("the place is not in the network of the machine")
	}
	if !strings.Contains(table, "@"+name) || conn == nil {
		t.Fatal("the guest's socket is not on this machine: this test shows nothing")
	}
	if listener == nil {
		t.Fatal("nothing listens on this machine: this test shows nothing")
	}
	defer listener.Close()
	if ports, err := sb.Ports(ctx); err != nil || slices.ContainsFunc(ports, func(p berth.Port) bool { return p.Address == listener.Addr().String() }) {
		t.Errorf("%v, %v; want no socket of the machine's", ports, err)
	}
	body := `{"major":1,"minor":0,"client":"0123456789abcdef0123456789abcdef","profile":{}}`
	hello := "BRTH" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
	_, _ = io.WriteString(conn, hello)
	if text, _ := io.ReadAll(conn); len(text) > 0 {
		t.Errorf("the guest answers a process of the machine: %q", text)
	}
	conn.Close()

	joined := busybox(t)
	joined.Key, joined.Network, joined.NetworkMode = "joined", spec.NetworkOpen, "container:"+sb.ID()
	other := provision(t, d, joined)
	relay := "/.berth/berth-guest relay --abstract " + name
	for _, script := range []string{relay, relay + " --peer-pid 1", "exec " + relay} {
		r, err := other.Exec(ctx, berth.Shell(script), berth.ExecOptions{Stdin: strings.NewReader(hello)})
		if err != nil || len(r.Stdout) > 0 {
			t.Errorf("%s from another container: %q, %v; want no answer", script, r.Stdout, err)
		}
	}
	for _, sb := range []*berth.Sandbox{sb, other} {
		if caps, err := sb.Caps(ctx); err != nil || caps.ConfinedSockets || caps.Why("confined_sockets") == "" {
			t.Errorf("%s: caps %+v, %v; sockets of others are in reach", sb.ID(), caps, err)
		}
		if err := sb.Ping(ctx); err != nil {
			t.Errorf("ping: %v", err)
		}
	}
	if err := other.Destroy(ctx); err != nil {
		t.Error(err)
	}

	// Somebody takes the name while the place is stopped.
	if _, err := engine.Client(t).ContainerKill(ctx, sb.ID(), client.ContainerKillOptions{}); err != nil {
		t.Fatal(err)
	}
	var squatter net.Listener
	eventually(t, "the name is free", func() bool {
		var err error
		engine.Within(t, func() { squatter, err = net.Listen("unix", "@"+name) })
		return err == nil
	})
	heard := make(chan string, 1)
	go func() {
		conn, err := squatter.Accept()
		if err != nil {
			heard <- ""
			return
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		text, _ := io.ReadAll(conn)
		heard <- string(text)
	}()
	_, err := berth.Provision(ctx, d, s)
	wantIs(t, "a provision while the name is taken", err, spec.ErrUnavailable)
	squatter.Close()
	if text := <-heard; text != "" {
		t.Errorf("the squatter was told %q", text)
	}
	if err := provision(t, d, s).Ping(ctx); err != nil {
		t.Errorf("after the squatter has gone: %v", err)
	}
}

// A network that is named is joined if it is there; if it is not nothing is made.
func TestNamedNetwork(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d, api := newDriver(t, o), engine.Client(t)
	s := busybox(t)
	s.Network = spec.NetworkOpen
	for mode, want := range map[string]error{"absent-net": spec.ErrNotFound, "container:absent": spec.ErrNotFound} {
		s.NetworkMode = mode
		_, err := berth.Provision(ctx, d, s)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "absent") || strings.Contains(err.Error(), "\n") {
			t.Errorf("network %s: %v; want %v", mode, err, want)
		}
		wantNoContainer(t, d, "an absent network")
	}
	created, err := api.NetworkCreate(ctx, "berth-test-net", client.NetworkCreateOptions{Driver: "bridge", Internal: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := api.NetworkRemove(context.Background(), created.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.NetworkMode = "berth-test-net"
	sb := provision(t, d, s)
	c, err := api.ContainerInspect(ctx, sb.ID(), client.ContainerInspectOptions{})
	if err != nil || c.Container.NetworkSettings.Networks["berth-test-net"] == nil {
		t.Errorf("the place is in %+v, %v", c.Container.NetworkSettings, err)
	}
	if links := sh(t, sb, "ls /sys/class/net"); !strings.Contains(links, "eth0") {
		t.Errorf("interfaces %q", links)
	}
	if err := sb.Destroy(ctx); err != nil { // before its network
		t.Error(err)
	}
}
