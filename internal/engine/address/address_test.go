package address

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/testutil/certtest"
	"github.com/berth-dev/berth/spec"
)

const usual = "unix:///var/run/usual.sock"

// write makes a file and the directories that it is in.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contextFile is where a context of this name is described.
func contextFile(dir, name, file string) string {
	sum := sha256.Sum256([]byte(name))
	kind := "meta"
	if file != "meta.json" {
		kind, file = "tls", "docker/"+file
	}
	return filepath.Join(dir, "contexts", kind, hex.EncodeToString(sum[:]), file)
}

// Host goes before Context, that before the current one, that before the usual address.
func TestWhichEngine(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "config.json"), `{"auths":{},"currentContext":"now"}`)
	for _, name := range []string{"now", "other"} {
		write(t, contextFile(dir, name, "meta.json"), `{"Name":"`+name+`","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://`+name+`:1"}}}`)
	}
	for _, tt := range []struct {
		o                   Options
		host, contextOfHost string
		named               bool
	}{
		{Options{}, usual, "", false},
		{Options{ConfigDir: t.TempDir()}, usual, "", false},
		{Options{ConfigDir: dir}, "tcp://now:1", "now", true},
		{Options{ConfigDir: dir, Context: "other"}, "tcp://other:1", "other", true},
		{Options{ConfigDir: dir, Context: "default"}, usual, "", false},
		{Options{ConfigDir: dir, Context: "other", Host: "ssh://me@far:22/run/d.sock"}, "ssh://me@far:22/run/d.sock", "", true},
		{Options{Host: "npipe:////./pipe/docker_engine"}, "npipe:////./pipe/docker_engine", "", true},
	} {
		a, err := New(usual, tt.o)
		if err != nil || a.Host != tt.host || a.Context != tt.contextOfHost || a.Named != tt.named {
			t.Errorf("%+v: %+v, %v; want %s of context %q", tt.o, a, err, tt.host, tt.contextOfHost)
		}
	}
}

// Whatever is malformed is refused before anything is dialled, in one line that names
// what is wrong and where it stands, with a cure; a password is not repeated.
func TestMalformed(t *testing.T) {
	dir := t.TempDir()
	config := func(text string) string {
		d, err := os.MkdirTemp(dir, "config")
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d, "config.json"), text)
		return d
	}
	context := func(meta string) string {
		d := config(`{"currentContext":"c"}`)
		write(t, contextFile(d, "c", "meta.json"), meta)
		return d
	}
	folder := config(`{}`)
	if err := os.Mkdir(filepath.Join(folder, "ca.pem"), 0o700); err != nil {
		t.Fatal(err)
	}
	bad := context(`{"Name":"c","Endpoints":{"docker":{"Host":"tcp://h"}}}`)
	write(t, contextFile(bad, "c", "ca.pem"), "nonsense")
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"no scheme", Options{Host: "nowhere"}, `"nowhere"`},
		{"unknown scheme", Options{Host: "ftp://x"}, "ftp"},
		{"relative socket", Options{Host: "unix://run/d.sock"}, "absolute"},
		{"no socket", Options{Host: "unix://"}, "absolute"},
		{"no host", Options{Host: "tcp://"}, "names no host"},
		{"bad port", Options{Host: "tcp://h:x"}, "port"},
		{"path", Options{Host: "tcp://h:1/v1"}, "path"},
		{"user", Options{Host: "tcp://me:secret@h"}, "logs in"},
		{"password", Options{Host: "ssh://me:secret@h"}, "password"},
		{"password and bad port", Options{Host: "ssh://me:secret@h:x"}, "port"},
		{"an option", Options{Host: "ssh://-oProxyCommand=x"}, "option"},
		{"query", Options{Host: "ssh://h?x=y"}, "follow"},
		{"configuration is no JSON", Options{ConfigDir: config("{")}, "config.json"},
		{"configuration has another type", Options{ConfigDir: config(`{"currentContext":7}`)}, "config.json"},
		{"context is not there", Options{ConfigDir: config(`{"currentContext":"gone"}`)}, `"gone"`},
		{"context is no JSON", Options{ConfigDir: context("nonsense")}, "meta.json"},
		{"context of another name", Options{ConfigDir: context(`{"Name":"d"}`)}, `another context, "d"`},
		{"context without an engine", Options{ConfigDir: context(`{"Name":"c","Endpoints":{"kubernetes":{}}}`)}, "no docker engine"},
		{"context with a bad address", Options{ConfigDir: context(`{"Name":"c","Endpoints":{"docker":{"Host":"x"}}}`)}, `context "c"`},
		{"context with bad certificates", Options{ConfigDir: bad}, "ca.pem: it holds no certificate"},
		{"context without a home", Options{Context: "c"}, "directory"},
		{"too large", Options{ConfigDir: config(strings.Repeat(" ", maxFileBytes+1))}, "at most"},
		{"certificate is a directory", Options{Host: "tcp://h", TLS: true, TLSDir: folder}, "ca.pem: not a regular file"},
		{"no certificates", Options{Host: "tcp://h", TLS: true, TLSDir: dir}, "holds none of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(usual, tt.o)
			if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), tt.want) || spec.HintOf(err) == "" {
				t.Fatalf("%v (hint %q); want invalid, with %q and a hint", err, spec.HintOf(err), tt.want)
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: want one line, without the password", err)
			}
		})
	}
}

// A socket of an engine without root is tried where the usual one is missing, and the one
// that has answered is kept to.
func TestSockets(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sockets have other paths")
	}
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	second := listen("second")
	o := Options{Sockets: []string{filepath.Join(dir, "first"), filepath.Join(dir, "second")}}
	a, err := New("unix://"+filepath.Join(dir, "usual"), o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := a.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	listen("usual")
	second.Close()
	if _, err := a.Dial(context.Background()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the engine is gone: %v; want no other one in its place", err)
	}
	named, err := New("unix:///x", Options{Host: "unix://" + filepath.Join(dir, "named"), Sockets: []string{filepath.Join(dir, "usual")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := named.Dial(context.Background()); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "named") {
		t.Errorf("an engine that was named: %v; want no other one", err)
	}
}

// Both sides of TLS prove who they are, and whoever does not is refused with the reason.
func TestTLS(t *testing.T) {
	ca := certtest.New(t)
	caPEM, otherCA := ca.PEM, certtest.New(t).PEM
	serverCert, serverKey := ca.Issue(t, nil)
	clientCert, clientKey := ca.Issue(t, nil)
	oldCert, oldKey := ca.Issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	pair, err := tls.X509KeyPair([]byte(serverCert), []byte(serverKey))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(caPEM))
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serve(l)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go serve(plain)
	for _, tt := range []struct {
		name  string
		addr  net.Addr
		files map[string]string
		code  spec.Code // "": it works
		want  string
	}{
		{"all is well", l.Addr(), map[string]string{caFile: caPEM, certFile: clientCert, keyFile: clientKey}, "", ""},
		{"another authority", l.Addr(), map[string]string{caFile: otherCA, certFile: clientCert, keyFile: clientKey}, spec.CodePermission, "not believed"},
		{"no authority", l.Addr(), map[string]string{certFile: clientCert, keyFile: clientKey}, spec.CodePermission, "not believed"},
		{"no certificate", l.Addr(), map[string]string{caFile: caPEM}, spec.CodePermission, "certificate required"},
		{"no key", l.Addr(), map[string]string{caFile: caPEM, certFile: clientCert}, spec.CodeInvalid, "key.pem: no such file"},
		{"no certificate for the key", l.Addr(), map[string]string{caFile: caPEM, keyFile: clientKey}, spec.CodeInvalid, "cert.pem: no such file"},
		{"another key", l.Addr(), map[string]string{caFile: caPEM, certFile: clientCert, keyFile: serverKey}, spec.CodeInvalid, "cert.pem: with key.pem"},
		{"expired", l.Addr(), map[string]string{caFile: caPEM, certFile: oldCert, keyFile: oldKey}, spec.CodeInvalid, "valid from"},
		{"no TLS", plain.Addr(), map[string]string{caFile: caPEM, certFile: clientCert, keyFile: clientKey}, spec.CodeUnavailable, "does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				write(t, filepath.Join(dir, name), text)
			}
			err := exchange(Options{Host: "tcp://" + tt.addr.String(), TLS: true, TLSDir: dir})
			code := spec.CodeOf(err)
			if Refused(err) {
				code = spec.CodePermission // as the engine says it
			} else if err != nil && spec.HintOf(err) == "" {
				t.Error("no hint")
			}
			if code != tt.code || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q with %q", err, tt.code, tt.want)
			}
		})
	}
}

// serve says a word to whoever comes.
func serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = conn.Write([]byte("hello\n"))
			_, _ = conn.Read(make([]byte, 1))
		}()
	}
}

// exchange dials and hears a word.
func exchange(o Options) error {
	a, err := New(usual, o)
	if err != nil {
		return err
	}
	conn, err := a.Dial(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}
