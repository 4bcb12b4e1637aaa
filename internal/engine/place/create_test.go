package place

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/internal/engine/helper"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// creator is an engine in which something is to be created.
type creator struct {
	mu     sync.Mutex
	log    []string
	create func(w http.ResponseWriter, r *http.Request) // of a place or a helper
	image  func() int                                   // the status of asking for one
	place  *container.InspectResponse                   // nil: it is not there
}

func newCreator(t *testing.T) (*creator, *Driver) {
	t.Helper()
	c := &creator{image: func() int { return http.StatusOK }}
	d := fakeEngine(t, c.serve)
	bin := guest.Bin{Hash: strings.Repeat("ab", 32)}
	d.bins["amd64"], d.volumes[helper.GuestVolume(bin)] = bin, true
	return c, d
}

func (c *creator) serve(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	request := r.Method + " " + path
	c.mu.Lock()
	c.log = append(c.log, request)
	place := c.place
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	missing := func(what string) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"message":"No such `+what+`"}`)
	}
	switch {
	case path == "": // a ping
	case path == "info":
		_, _ = io.WriteString(w, `{"OSType":"linux","Architecture":"x86_64","NCPU":2}`)
	case path == "containers/create":
		c.create(w, r)
	case path == "containers/json":
		_, _ = io.WriteString(w, `[]`)
	case strings.HasPrefix(request, "GET containers/") && place != nil:
		_ = json.NewEncoder(w).Encode(place)
	case strings.HasPrefix(request, "GET images/"):
		if status := c.image(); status != http.StatusOK {
			missing("image")
			return
		}
		_, _ = io.WriteString(w, `{"Id":"sha256:1"}`)
	case strings.HasPrefix(request, "DELETE "):
		w.WriteHeader(http.StatusNoContent)
	default:
		missing("thing")
	}
}

func refuseCreate(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"message":"No such thing"}`)
}

func (c *creator) asked(request string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, r := range c.log {
		if strings.HasPrefix(r, request) {
			n++
		}
	}
	return n
}

// An image that a prune has removed before a container was made of it is made ready again;
// whatever else is missing is no missing image.
func TestImageIsMadeReadyAgain(t *testing.T) {
	c, d := newCreator(t)
	p, place := inspected(t, d, &spec.Spec{Key: "k", Image: "localhost/i:1"})
	var asked int
	c.create = func(w http.ResponseWriter, r *http.Request) {
		if c.asked("POST containers/create") <= 2 {
			refuseCreate(w, r)
			return
		}
		c.mu.Lock()
		c.place = place
		c.mu.Unlock()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"Id":"`+place.ID+`"}`)
	}
	// There when its volumes are asked for, gone when the container is to be made of it, there
	// when it has been made ready.
	c.image = func() int {
		if asked++; asked%3 == 2 {
			return http.StatusNotFound
		}
		return http.StatusOK
	}
	if got, err := d.createFrom(context.Background(), p); err != nil || got.ID != place.ID {
		t.Errorf("%v, %v", got, err)
	}

	c, d = newCreator(t)
	c.create = refuseCreate
	_, err := d.createFrom(context.Background(), p)
	if !errors.Is(err, spec.ErrNotFound) || strings.Contains(err.Error(), "image") || c.asked("POST containers/create") != 1 {
		t.Errorf("%v, and asked %d times; want what the engine says, once", err, c.asked("POST containers/create"))
	}

	c, d = newCreator(t)
	if p, err = d.plan(&spec.Spec{Key: "k", Image: "i", Network: spec.NetworkOpen, NetworkMode: "blue"}, driver.ProvisionOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = d.createFrom(context.Background(), p)
	if !errors.Is(err, spec.ErrNotFound) || !strings.Contains(err.Error(), "network blue") || c.asked("GET networks/") != 1 || c.asked("GET images/") > 0 {
		t.Errorf("%v after %v; want the network missing, and nothing else asked", err, c.log)
	}
}

// A container that goes away while its volumes are being prepared is another one now.
func TestVolumesOfOneThatIsGone(t *testing.T) {
	c, d := newCreator(t)
	c.create = refuseCreate
	p, place := inspected(t, d, &spec.Spec{Key: "k", Image: "i", Hardening: spec.Hardening{ReadOnlyRoot: true, User: "1:1"}})
	if err := d.prepareVolumes(context.Background(), p, place); !errors.Is(err, errMoved) {
		t.Errorf("%v; want %v", err, errMoved)
	}
}

// A Restore whose creation is cut off leaves no place, also where the engine goes on with it;
// one that somebody else has made of that name meanwhile stays.
func TestRestoreCutOff(t *testing.T) {
	for _, theirs := range []bool{false, true} {
		c, d := newCreator(t)
		ctx, cancel := context.WithCancel(context.Background())
		p, place := inspected(t, d, &spec.Spec{Key: "k", Image: "i"})
		p.fresh = true
		c.create = func(w http.ResponseWriter, r *http.Request) {
			var config container.Config
			_ = json.NewDecoder(r.Body).Decode(&config)
			place.Config = &config
			if theirs {
				place.Config.Labels[labelListen] = "another"
			}
			c.mu.Lock()
			c.place = place
			c.mu.Unlock()
			cancel()
			<-r.Context().Done()
		}
		if _, err := d.bring(ctx, p); !errors.Is(err, context.Canceled) {
			t.Errorf("%v; want the context's error", err)
		}
		if removed := c.asked("DELETE containers/" + place.ID); removed != map[bool]int{false: 1}[theirs] {
			t.Errorf("of somebody else: %t; %d removals", theirs, removed)
		}
	}
}
