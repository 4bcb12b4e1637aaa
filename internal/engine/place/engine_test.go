package place

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/spec"
)

// fakeEngine is a driver whose engine answers with what h says. It says that it is one.
func fakeEngine(t *testing.T, h http.HandlerFunc) *Driver {
	t.Helper()
	return driverAt(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		h(w, r)
	})
}

// driverAt is a driver whose engine is a web server.
func driverAt(t *testing.T, h http.HandlerFunc) *Driver {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	d, err := New(engine.Docker(), Options{Engine: address.Options{Host: "tcp://" + strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// An engine that is not there, or is closed to this user, is said so in one line, with
// the address and what can be done; nothing is made of it.
func TestEngineAbsent(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: closed})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, host := range []string{"unix://" + filepath.Join(dir, "missing.sock"), "unix://" + closed, "tcp://127.0.0.1:1"} {
		d, err := New(engine.Docker(), Options{Engine: address.Options{Host: host}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		_, probe := d.Probe(ctx)
		_, provision := d.Provision(ctx, &spec.Spec{Image: "x"}, driver.ProvisionOptions{})
		_, attach := d.Attach(ctx, "k", driver.AttachOptions{})
		_, owned := d.Owned(ctx)
		for what, err := range map[string]error{"probe": probe, "provision": provision, "attach": attach, "owned": owned, "reap": d.Reap(ctx, "k", driver.ReapOptions{})} {
			if !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), host) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s at %s: %v; want unavailable, with the address", what, host, err)
			}
			if hint := spec.HintOf(err); !strings.Contains(hint, "dockerd") || !strings.Contains(hint, "DOCKER_HOST") {
				t.Errorf("%s at %s: hint %q", what, host, hint)
			}
		}
	}
	for _, host := range []string{"ssh://", "nonsense", "unix://", "tcp://", "ftp://x"} {
		if _, err := New(engine.Docker(), Options{Engine: address.Options{Host: host}}); !errors.Is(err, spec.ErrInvalid) || spec.HintOf(err) == "" {
			t.Errorf("host %q: %v; want invalid, with a hint", host, err)
		}
	}
}

// A server that is no engine is unavailable, to every request and in one line: what it
// says of a path says nothing of a container.
func TestNoEngine(t *testing.T) {
	page := "<!DOCTYPE HTML>\n<html><title>Error response</title></html>"
	for name, h := range map[string]http.HandlerFunc{
		"a file server":  func(w http.ResponseWriter, r *http.Request) { http.Error(w, page, http.StatusNotFound) },
		"no HEAD":        func(w http.ResponseWriter, r *http.Request) { http.Error(w, page, http.StatusNotImplemented) },
		"a page for all": func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, page) },
	} {
		d, ctx := driverAt(t, h), context.Background()
		_, probe := d.Probe(ctx)
		_, attach := d.Attach(ctx, "k", driver.AttachOptions{})
		_, owned := d.Owned(ctx)
		for what, err := range map[string]error{"probe": probe, "attach": attach, "owned": owned, "reap": d.Reap(ctx, "k", driver.ReapOptions{})} {
			if !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), "is no Docker engine") || strings.Contains(err.Error(), "html") {
				t.Errorf("%s, %s: %v; want unavailable, without the page", name, what, err)
			}
			if !strings.Contains(spec.HintOf(err), "points there") {
				t.Errorf("%s, %s: hint %q", name, what, spec.HintOf(err))
			}
		}
	}
}

// An engine that is too old, or runs other containers, is refused with what is wanted.
func TestEngineUnfit(t *testing.T) {
	tests := []struct {
		name, version, info string
		want                error
		text                string
	}{
		{"old", "1.24", `{}`, spec.ErrUnsupported, "1.24"},
		{"windows", "1.41", `{"OSType":"windows","NCPU":2}`, spec.ErrUnsupported, "windows"},
		{"nonsense", "1.41", `nonsense`, spec.ErrUnavailable, ""},
	}
	for _, tt := range tests {
		d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", tt.version)
			fmt.Fprint(w, tt.info)
		})
		_, err := d.Probe(context.Background())
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v; want %v with %q", tt.name, err, tt.want, tt.text)
		}
	}
}

// A limit that the engine's kernel lacks is not declared, and its absence explained.
func TestProbeDeclaresLimits(t *testing.T) {
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		fmt.Fprint(w, `{"OSType":"linux","Architecture":"aarch64","NCPU":4,"MemoryLimit":true,"SwapLimit":false,"PidsLimit":true}`)
	})
	caps, err := d.Probe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if caps.LimitMemory || !caps.LimitPIDs || caps.LimitCPU || caps.Arch != "arm64" {
		t.Errorf("caps %+v", caps)
	}
	if caps.Why("limit_memory") == "" || caps.Why("limit_cpu") == "" || caps.Why("limit_pids") != "" {
		t.Errorf("reasons %q", caps.Missing)
	}
}

// Codes come from the status of the right request, whatever the words.
func TestErrorsByStatus(t *testing.T) {
	const prose = `{"message":"No such container: berth; conflict; permission denied"}`
	for status, want := range map[int]error{
		400: spec.ErrInvalid, 401: spec.ErrPermission, 403: spec.ErrPermission, 404: spec.ErrNotFound,
		409: spec.ErrUnavailable, 500: spec.ErrUnavailable, 501: spec.ErrUnsupported, 503: spec.ErrUnavailable,
	} {
		d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/_ping") {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, prose)
		})
		_, err := d.Owned(context.Background())
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "list containers: No such container") {
			t.Errorf("status %d: %v; want %v", status, err, want)
		}
	}
}

// A request that changes something and whose answer is lost has an unknown outcome;
// one that reads does not.
func TestLostAnswers(t *testing.T) {
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	ctx, auth := context.Background(), driver.Authority{}
	if err := d.engine.Start(ctx, auth, "x"); !errors.Is(err, spec.ErrUnknownOutcome) {
		t.Errorf("start: %v; want unknown_outcome", err)
	}
	if err := d.engine.Remove(ctx, auth, "x"); !errors.Is(err, spec.ErrUnknownOutcome) {
		t.Errorf("remove: %v; want unknown_outcome", err)
	}
	if _, err := d.engine.Inspect(ctx, auth, "x"); !errors.Is(err, spec.ErrUnavailable) {
		t.Errorf("inspect: %v; want unavailable", err)
	}
}

// A refused fence sends nothing; a context that has ended sends nothing and is the
// context's error.
func TestFenceAtDispatch(t *testing.T) {
	requests := 0
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) { requests++ })
	refuse := driver.Authority{Fence: func(context.Context) error { return errors.New("lost the lease") }}
	ctx := context.Background()
	_, err := d.Provision(ctx, &spec.Spec{Image: "x"}, driver.ProvisionOptions{Authority: refuse})
	_, attach := d.Attach(ctx, "k", driver.AttachOptions{Authority: refuse})
	for what, err := range map[string]error{
		"provision": err, "attach": attach,
		"reap": d.Reap(ctx, "k", driver.ReapOptions{Authority: refuse}), "stop": d.Stop(ctx, "k", driver.ReapOptions{Authority: refuse}),
	} {
		if !errors.Is(err, spec.ErrStaleOwner) {
			t.Errorf("%s: %v; want stale_owner", what, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := d.Probe(over); err != context.Canceled {
		t.Errorf("probe after the end: %v; want context.Canceled itself", err)
	}
	if requests > 0 {
		t.Errorf("%d requests were sent", requests)
	}
}

// An engine's hint of a short id or of another name is not the container that was
// asked for.
func TestInspectWantsTheExactName(t *testing.T) {
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"Id":"berth-0123456789abcdef00","Name":"/another","State":{"Status":"running"},"Config":{},"HostConfig":{}}`)
	})
	if _, err := d.engine.Inspect(context.Background(), driver.Authority{}, "berth-0123456789abcdef"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("inspect: %v; want not_found", err)
	}
}

// Removal waits out somebody else's, and gives an engine's last word back.
func TestRemoveWaits(t *testing.T) {
	conflicts := 3
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			return
		}
		if q := r.URL.Query(); q.Get("force") != "1" || q.Get("v") != "1" {
			t.Errorf("query %v; want force and volumes", q)
		}
		status := http.StatusNotFound
		if conflicts > 0 {
			conflicts--
			status = http.StatusConflict
		}
		http.Error(w, "removal of container x is already in progress", status)
	})
	if err := d.engine.Remove(context.Background(), driver.Authority{}, "x"); err != nil || conflicts > 0 {
		t.Errorf("remove: %v with %d conflicts left", err, conflicts)
	}
}
