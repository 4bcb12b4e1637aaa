package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/address"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// A socket that is closed to this user is permission, with what opens it.
func TestClosedSocket(t *testing.T) {
	e := &Engine{Dialect: Docker(), at: &address.Address{Host: "unix:///s"}}
	err := e.classify(Call{What: "x"}, fmt.Errorf("error during connect: %w", &dialError{&net.OpError{Op: "dial", Err: syscall.EACCES}}))
	if !errors.Is(err, spec.ErrPermission) || !strings.Contains(spec.HintOf(err), "docker group") {
		t.Errorf("%v (hint %q); want permission", err, spec.HintOf(err))
	}
}

// The advice for an engine that is absent does not say of DOCKER_HOST what is not so.
func TestAbsentHint(t *testing.T) {
	if hint := (&Engine{Dialect: Docker(), at: &address.Address{}}).absentHint(); !strings.Contains(hint, "start dockerd") || !strings.Contains(hint, "docker.io") {
		t.Errorf("without an address: %q", hint)
	}
	if hint := (&Engine{Dialect: Docker(), at: &address.Address{Named: true}}).absentHint(); !strings.Contains(hint, "points there") {
		t.Errorf("with an address: %q", hint)
	}
}

// A full disk of the engine's machine is no_space, with what helps; the same words inside
// an answer, where an image's may stand, are not.
func TestFullDisk(t *testing.T) {
	for answer, want := range map[string]error{
		"mkdir /var/lib/docker/overlay2/x: no space left on device":                       spec.ErrNoSpace,
		"oci runtime error: \": no space left on device\" is not a program that there is": spec.ErrUnavailable,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Api-Version", "1.41")
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/containers/create") {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprintf(w, `{"message":%q}`, answer)
			}
		}))
		t.Cleanup(server.Close)
		e, err := New(Docker(), address.Options{Host: "tcp://" + server.Listener.Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.Create(context.Background(), driver.Authority{}, client.ContainerCreateOptions{Config: &container.Config{Image: "x"}})
		if !errors.Is(err, want) || errors.Is(want, spec.ErrNoSpace) && !strings.Contains(spec.HintOf(err), "berth prune") {
			t.Errorf("%s: %v (hint %q); want %v", answer, err, spec.HintOf(err), want)
		}
	}
}

// What an engine fails to say of a container that is just being removed is asked for again,
// until it says that there is none; what changes something is sent once.
func TestReadsOfWhatIsRemoved(t *testing.T) {
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		if what := path.Base(r.URL.Path); what != "_ping" {
			status := http.StatusInternalServerError
			if asked[what]++; asked[what] == 3 {
				status = http.StatusNotFound
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"message":"it does not exist in database"}`)
		}
	}))
	t.Cleanup(server.Close)
	e, err := New(Docker(), address.Options{Host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, auth := t.Context(), driver.Authority{}
	if _, err := e.Inspect(ctx, auth, "c"); !errors.Is(err, spec.ErrNotFound) {
		t.Errorf("inspect: %v; want not found", err)
	}
	if _, err := e.Stat(ctx, auth, "c", "/f"); !errors.Is(err, spec.ErrFileNotFound) {
		t.Errorf("stat: %v; want no such file", err)
	}
	if err := e.Start(ctx, auth, "c"); !errors.Is(err, spec.ErrUnavailable) || asked["start"] != 1 {
		t.Errorf("start: %v, sent %d times; want unavailable, once", err, asked["start"])
	}
}

// A container that cannot be frozen, as a program is being started in it, is waited for as
// long as the caller has time; what is tidied up says that the engine took too long, and
// never that the caller did.
func TestGateIsWaitedForInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Engine{Dialect: Docker(), at: &address.Address{}, gates: newGates()}
		gate := e.gates.of("c")
		if err := gate.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Freeze(ctx, driver.Authority{}, "c"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("freeze: %v; want the caller's deadline", err)
		}
		cleanup, cancel := Cleanup(ctx)
		defer cancel()
		if err := e.Freeze(cleanup, driver.Authority{}, "c"); !errors.Is(err, spec.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("freeze, tidying up: %v; want unavailable", err)
		}
		gate.Release(1)
		if err := gate.Acquire(t.Context(), wholeGate); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Exec(ctx, driver.Authority{}, "c", []string{"true"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("exec while it is being frozen: %v; want the caller's deadline", err)
		}
	})
}

// Of those who want a turn of one name one has it at a time, whoever gives up waiting is out
// of the way, and another name's turn is another one.
func TestTurn(t *testing.T) {
	e, ctx := &Engine{}, t.Context()
	done, err := e.Turn(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := e.Turn(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := e.Turn(over, "a"); err != context.Canceled {
		t.Errorf("%v; want the context's error", err)
	}
	next := make(chan func())
	go func() {
		done, err := e.Turn(ctx, "a")
		if err != nil {
			t.Error(err)
		}
		next <- done
	}()
	select {
	case <-next:
		t.Error("two have the turn")
	case <-time.After(10 * time.Millisecond):
	}
	done()
	(<-next)()
	if len(e.turns.of) > 0 {
		t.Errorf("kept: %v", e.turns.of)
	}
}
