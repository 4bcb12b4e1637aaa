//go:build linux

package image_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/spec"
)

// proxied is an engine behind a proxy that changes what is asked and what it says.
func proxied(t *testing.T, request func(*http.Request) (refused bool), response func(*http.Response)) string {
	t.Helper()
	_, socket, _ := strings.Cut(docker.Host(t), "://")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "engine"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			response(r)
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if request(r) {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return "tcp://" + server.Listener.Addr().String()
}

func passed(*http.Request) bool { return false }

func unchanged(*http.Response) {}

// BuildKit builds where the engine has it, also where it is not what the engine usually
// builds with, through a proxy too; the classic builder where it has not, where the engine was
// told to use that one, and where the caller says so. A Dockerfile from outside of the context
// is not copied into the image by either.
func TestBuilder(t *testing.T) {
	yes, no := true, false
	host := docker.Host(t)
	forbidding := proxied(t, func(r *http.Request) bool { return r.URL.Path == "/session" }, unchanged)
	told := proxied(t, passed, func(r *http.Response) { r.Header.Set("Builder-Version", "1") })
	const mount = "RUN --mount=type=cache,target=/m touch /m/f && echo it-mounts\n"
	// All of the context, whatever its .dockerignore says, and nothing else.
	const copied = "COPY . /c/\nRUN test \"$(cd /c; find . -type f | sort | xargs echo)\" = './.dockerignore ./a-b ./a/b ./a/c/d ./f' && test $(cat /c/f) = x && test $(readlink /c/a/l) = ../f && test -x /c/a/b && test ! -x /c/f\n"
	for _, tt := range []struct {
		name, host, text string
		buildkit         *bool
		elsewhere        string // where the Dockerfile is, seen from its context
		log              string // what only the builder's has; "": it fails
		err              error
		hint             string
	}{
		{name: "has it", host: host, text: mount, log: "#5 it-mounts\n"},
		{name: "below", host: host, text: "COPY . /c/\nRUN test \"$(find /c -type f | sort | xargs echo)\" = '/c/d/Dockerfile /c/f'\n", elsewhere: "d/Dockerfile", log: "#4 "},
		{name: "not wanted", host: host, text: mount, buildkit: &no, err: spec.ErrInvalid, hint: "BuildKit"},
		{name: "no session", host: forbidding, log: "Step 1/"},
		{name: "no session, wanted", host: forbidding, buildkit: &yes, err: spec.ErrUnsupported, hint: "DOCKER_BUILDKIT"},
		{name: "told to use the other", host: told, log: "Step 1/"},
		{name: "told to use the other, wanted", host: told, buildkit: &yes, log: "#4 "},
		{name: "outside", host: host, text: mount + copied, elsewhere: "../Dockerfile", log: " it-mounts\n"},
		{name: "outside, not wanted", host: host, text: copied, buildkit: &no, elsewhere: "../Dockerfile", log: "Step 1/"},
		{name: "outside, no session", host: forbidding, text: copied, elsewhere: "../Dockerfile", log: "Step 1/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := dockerfile(t, tt.text)
			if tt.elsewhere != "" {
				text, err := os.ReadFile(filepath.Join(b.Context, "Dockerfile"))
				if err != nil {
					t.Fatal(err)
				}
				b.Context = filepath.Join(t.TempDir(), "context")
				b.Dockerfile = writeFile(t, filepath.Join(b.Context, tt.elsewhere), string(text))
				writeFile(t, filepath.Join(b.Context, "f"), "x")
				if strings.HasPrefix(tt.elsewhere, "../") {
					outside(t, b.Context)
				}
			}
			var log bytes.Buffer
			store := newStoreAt(t, tt.host, image.Options{Owner: "o", BuildKit: tt.buildkit})
			_, err := store.Build(testContext(t), b, driver.PrepareOptions{Log: &log, Force: true})
			if !errors.Is(err, tt.err) || !strings.Contains(spec.HintOf(err), tt.hint) || !strings.Contains(log.String(), tt.log) {
				t.Errorf("%v (hint: %s); want %v, and %q in the log:\n%s", err, spec.HintOf(err), tt.err, tt.log, log.String())
			}
		})
	}
}

// outside adds to a context what tells whether all of it arrives as it is.
func outside(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{".dockerignore": "f\na\n", "a-b": "", "a/b": "", "a/c/d": ""} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	if err := os.Chmod(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../f", filepath.Join(dir, "a/l")); err != nil {
		t.Fatal(err)
	}
}

// A connection that breaks in the midst of a build is an answer that is lost, and no build
// that failed.
func TestBuildIsCutOff(t *testing.T) {
	cut := proxied(t, passed, func(r *http.Response) {
		if strings.HasSuffix(r.Request.URL.Path, "/build") {
			r.Body = &broken{ReadCloser: r.Body}
		}
	})
	withBuilders(t, func(t *testing.T, o image.Options) {
		_, err := newStoreAt(t, cut, o).Build(testContext(t), dockerfile(t, ""), driver.PrepareOptions{Force: true})
		if !errors.Is(err, spec.ErrUnknownOutcome) || strings.Contains(err.Error(), "build failed") {
			t.Errorf("%v; want an outcome that nobody knows", err)
		}
	})
}

// broken is a body of which something can be read, and then nothing any more.
type broken struct {
	io.ReadCloser
	read bool
}

func (b *broken) Read(p []byte) (int, error) {
	if b.read {
		return 0, io.ErrUnexpectedEOF
	}
	b.read = true
	return b.ReadCloser.Read(p)
}
