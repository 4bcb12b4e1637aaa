package buildkit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"
)

// answer is what an engine does with a connection on which a session was asked for.
type answer func(conn net.Conn, r *http.Request)

// engineThat returns a client of an engine that knows sessions only.
func engineThat(t *testing.T, does answer) *client.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				does(conn, r)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	api, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		t.Fatal(err)
	}
	return api
}

const upgraded = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"

// An engine gets the keys of the registries that it may ask, by the names that it has for
// them, and learns that its client lives. There is nothing else that it could have, and no
// message that it could send does more than end its own call.
func TestSession(t *testing.T) {
	type result struct{ reply, status string }
	got := map[string]result{}
	header := http.Header{}
	host := func(name string) string { return string(appendFrame(nil, message(1, name))) }
	calls := []struct {
		name, method, body string
		want               result
	}{
		{"health", healthCheck, string(appendFrame(nil, nil)), result{"\x00\x00\x00\x00\x02\x08\x01", "0"}},
		{"health of a service", healthCheck, string(appendFrame(nil, message(1, "s"))), result{"\x00\x00\x00\x00\x02\x08\x01", "0"}},
		{"a key", credentials, host("r.example:5"), result{string(appendFrame(nil, message(1, "u", 2, "p"))), "0"}},
		{"a token", credentials, host("t.example"), result{string(appendFrame(nil, message(2, "t"))), "0"}},
		{"another registry", credentials, host("other.example"), result{string(appendFrame(nil, nil)), "0"}},
		{"no registry", credentials, string(appendFrame(nil, nil)), result{string(appendFrame(nil, nil)), "0"}},
		{"a token by itself", "/moby.filesync.v1.Auth/FetchToken", host("r.example:5"), result{"", "12"}},
		{"an authority", "/moby.filesync.v1.Auth/GetTokenAuthority", host("r.example:5"), result{"", "12"}},
		{"files", "/moby.filesync.v1.FileSync/DiffCopy", "", result{"", "12"}},
		{"a secret", "/moby.buildkit.secrets.v1.Secrets/GetSecret", host("x"), result{"", "12"}},
		{"a path", "/../../etc/passwd", "", result{"", "12"}},
		{"no message", credentials, "", result{"", "3"}},
		{"half a head", credentials, "\x00\x00", result{"", "3"}},
		{"half a message", credentials, "\x00\x00\x00\x00\x05\x0a", result{"", "3"}},
		{"two messages", credentials, host("r.example:5") + host("t.example"), result{"", "3"}},
		{"compressed", credentials, "\x01" + host("r.example:5")[1:], result{"", "3"}},
		{"huge", credentials, "\x00\xff\xff\xff\xff", result{"", "3"}},
		{"no fields", credentials, string(appendFrame(nil, []byte{0x0f})), result{"", "3"}},
		{"a number for a host", credentials, string(appendFrame(nil, message(1, 7))), result{"", "3"}},
	}
	asked := make(chan struct{})
	api := engineThat(t, func(conn net.Conn, r *http.Request) {
		defer close(asked)
		header = r.Header
		if _, err := io.WriteString(conn, upgraded); err != nil {
			t.Error(err)
		}
		engine := grpcClient(conn)
		defer engine.CloseIdleConnections()
		for _, c := range calls {
			res, err := engine.Post("http://client"+c.method, "application/grpc", strings.NewReader(c.body))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			reply, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.Header.Get("Content-Type") != "application/grpc" {
				t.Errorf("%s: %v, %v", c.name, res.Header, err)
			}
			got[c.name] = result{string(reply), res.Trailer.Get("Grpc-Status")}
		}
	})
	keys := map[string]Key{"r.example:5": {User: "u", Secret: "p"}, "t.example": {Secret: "t"}}
	s, err := Open(t.Context(), api, keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	s.Close()
	s.Close()
	for _, c := range calls {
		if diff := cmp.Diff(c.want, got[c.name], cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if methods := header.Values("X-Docker-Expose-Session-Grpc-Method"); header.Get("X-Docker-Expose-Session-Uuid") != s.ID || s.ID == "" || len(methods) != 2 {
		t.Errorf("asked with %v for session %q", header, s.ID)
	}
	waitGone(t)
}

// grpcClient is the engine's side of a session.
func grpcClient(conn net.Conn) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{
		Protocols:   &protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
}

// waitGone waits until no goroutine serves a session.
func waitGone(t *testing.T) {
	t.Helper()
	var left string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		left = ""
		stacks := make([]byte, 1<<20)
		for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
			if bytes.Contains(stack, []byte("buildkit.(*")) || bytes.Contains(stack, []byte("http2")) {
				left += string(stack)
			}
		}
		if left == "" {
			return
		}
	}
	t.Errorf("goroutines left:\n%s", left)
}

// An engine that has no sessions is told from one that cannot be asked, one that answers
// nonsense and one that does not answer. None of them leaves anything.
func TestNoSession(t *testing.T) {
	says := func(text string) answer {
		return func(conn net.Conn, _ *http.Request) { _, _ = io.WriteString(conn, text) }
	}
	for _, tt := range []struct {
		name string
		does answer
		want error
	}{
		{"podman", says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), ErrNoSession},
		{"a proxy that forbids it", says("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), ErrNoSession},
		{"a web server", says("HTTP/1.1 200 OK\r\n\r\nhello"), ErrNoSession},
		{"nonsense", says("nonsense\r\n\r\n"), spec.ErrUnavailable},
		{"nothing", says(""), spec.ErrUnavailable},
		{"a head without end", says("HTTP/1.1 101 UPGRADED\r\n" + strings.Repeat("A: b\r\n", maxHead)), spec.ErrUnavailable},
		{"silence", func(conn net.Conn, _ *http.Request) { _, _ = conn.Read(make([]byte, 1)) }, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if errors.Is(tt.want, context.Canceled) {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		s, err := Open(ctx, engineThat(t, tt.does), nil, nil)
		if s != nil || !errors.Is(err, tt.want) || tt.want != ErrNoSession && errors.Is(err, ErrNoSession) {
			t.Errorf("%s: %v, %v; want %v", tt.name, s, err, tt.want)
		}
		cancel()
	}
	waitGone(t)
}

// A session lives until it is closed, whatever its engine does with it, and then nothing of
// it is left.
func TestSessionEnds(t *testing.T) {
	for name, does := range map[string]answer{
		"the engine goes":  func(net.Conn, *http.Request) {},
		"the engine stays": func(conn net.Conn, _ *http.Request) { _, _ = io.Copy(io.Discard, conn) },
		"no HTTP/2":        func(conn net.Conn, _ *http.Request) { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n") },
		"a flood of bytes": func(conn net.Conn, _ *http.Request) { _, _ = conn.Write(make([]byte, 1<<20)) },
		"a call without end": func(conn net.Conn, _ *http.Request) {
			body, w := io.Pipe()
			defer w.Close()
			_, _ = grpcClient(conn).Post("http://client"+credentials, "application/grpc", body)
		},
	} {
		s, err := Open(t.Context(), engineThat(t, func(conn net.Conn, r *http.Request) {
			if _, err := io.WriteString(conn, upgraded); err != nil {
				t.Error(err)
			}
			does(conn, r)
		}), nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s.Close()
	}
	waitGone(t)
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, message(1, "r.example")))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readFrame(bytes.NewReader(in))
		pieces, errPieces := readFrame(iotest.OneByteReader(bytes.NewReader(in)))
		if !bytes.Equal(whole, pieces) || fmt.Sprint(err) != fmt.Sprint(errPieces) {
			t.Errorf("fragmentation changes the result: %q %v, %q %v", whole, err, pieces, errPieces)
		}
		if err == nil && !bytes.Equal(appendFrame(nil, whole), in) {
			t.Errorf("%q is read as %q", in, whole)
		}
		if reply, status := (&service{keys: map[string]Key{"r.example": {Secret: "s"}}}).answer(credentials, bytes.NewReader(in)); status == statusOK && len(reply) > 0 && !bytes.Contains(in, []byte("r.example")) {
			t.Errorf("%q has the key of another", in)
		}
	})
}
