package place

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// keeper is an engine with one place that runs, of which snapshots can be taken.
type keeper struct {
	place *container.InspectResponse
	// refuse is asked of each request, "METHOD path", with mu held.
	refuse func(request string) bool

	mu     sync.Mutex
	state  container.ContainerState
	there  map[string]string // containers beside the place: ids by name
	images map[string]map[string]string
	tags   []string
	log    []string
}

func newKeeper(t *testing.T) (*keeper, *Driver) {
	t.Helper()
	k := &keeper{state: container.StateRunning, there: map[string]string{}, images: map[string]map[string]string{"base": {}}, refuse: func(string) bool { return false }}
	_, k.place = inspected(t, testDriver(t, Options{}), &spec.Spec{Key: "k", Image: "i"})
	k.place.Image = "base"
	k.place.Mounts = nil
	return k, fakeEngine(t, k.serve)
}

func (k *keeper) serve(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	request := r.Method + " " + path
	k.log = append(k.log, request)
	w.Header().Set("Content-Type", "application/json")
	answer := func(status int, body any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	if k.refuse(request) {
		answer(http.StatusInternalServerError, map[string]string{"message": "no"})
		return
	}
	id := strings.Split(path+"//", "/")[1]
	switch {
	case request == "GET containers/json":
		items := []any{map[string]any{"Id": k.place.ID, "Names": []string{k.place.Name}, "State": k.state, "ImageID": "base", "Labels": k.place.Config.Labels}}
		for name, id := range k.there {
			items = append(items, map[string]any{"Id": id, "Names": []string{"/" + name}, "State": "created"})
		}
		answer(http.StatusOK, items)
	case request == "POST containers/create":
		name := r.URL.Query().Get("name")
		k.there[name] = "id-" + name
		answer(http.StatusCreated, map[string]string{"Id": "id-" + name})
	case request == "POST commit":
		var config container.Config
		_ = json.NewDecoder(r.Body).Decode(&config)
		made := fmt.Sprintf("made%d", len(k.images))
		k.images[made] = config.Labels
		answer(http.StatusCreated, map[string]string{"Id": made})
	case strings.HasSuffix(path, "/pause"):
		k.state = container.StatePaused
	case strings.HasSuffix(path, "/unpause"):
		k.state = container.StateRunning
	case strings.HasSuffix(path, "/exec"):
		answer(http.StatusInternalServerError, map[string]string{"message": "it takes none"})
	case strings.HasSuffix(path, "/tag"):
		k.tags = append(k.tags, r.URL.Query().Get("tag"))
	case strings.HasPrefix(request, "DELETE images/"):
		delete(k.images, id)
		answer(http.StatusOK, []any{})
	case strings.HasPrefix(path, "images/") && k.images[id] != nil:
		answer(http.StatusOK, map[string]any{"Id": id, "Config": map[string]any{"Labels": k.images[id]}})
	case strings.HasPrefix(path, "images/"):
		answer(http.StatusNotFound, map[string]string{"message": "No such image"})
	case strings.HasPrefix(request, "DELETE containers/"):
		maps.DeleteFunc(k.there, func(_, has string) bool { return has == id })
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(request, "GET containers/") && strings.HasSuffix(path, "/archive"):
		answer(http.StatusNotFound, map[string]string{"message": "no such file"})
	case strings.HasPrefix(request, "GET containers/"):
		c := *k.place
		c.State = &container.State{Status: k.state, Running: true}
		answer(http.StatusOK, c)
	}
}

// A snapshot during which something may have run in the place, or somebody else has begun one,
// is given up. What fails of tidying up is no failure of one that was made; where the place
// cannot be let go on, or be frozen, none is made, and it runs as before as far as the engine
// lets it.
func TestSnapshotIsWholeOrNone(t *testing.T) {
	const helpers, hold = "berth-snap-", "berth-snap-of-"
	for _, tt := range []struct {
		name   string
		during func(k *keeper) // once it has stood still
		refuse string
		want   error
		text   string
	}{
		{name: "nothing happens"},
		{name: "let go on", during: func(k *keeper) { k.state = container.StateRunning }, want: spec.ErrUnavailable, text: "let it go on"},
		{name: "stopped", during: func(k *keeper) { k.state = container.StateExited }, want: spec.ErrUnavailable, text: "let it go on"},
		{name: "taken over", during: func(k *keeper) {
			maps.DeleteFunc(k.there, func(name, _ string) bool { return strings.HasPrefix(name, hold) })
		}, want: spec.ErrUnavailable, text: "another client"},
		{name: "the layer stays", refuse: "DELETE images/made1"},
		{name: "helpers stay", refuse: "DELETE containers/id-" + helpers},
		{name: "it does not go on", refuse: "POST containers/" + strings.Repeat("ab", 32) + "/unpause", want: spec.ErrUnavailable, text: "unpause"},
		{name: "it is not frozen", refuse: "POST containers/" + strings.Repeat("ab", 32) + "/pause", want: spec.ErrUnavailable, text: "pause"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, d := newKeeper(t)
			k.refuse = func(request string) bool { return tt.refuse != "" && strings.HasPrefix(request, tt.refuse) }
			o := driver.SnapshotOptions{ID: "s", Progress: func(spec.Progress) {
				k.mu.Lock()
				defer k.mu.Unlock()
				if tt.during != nil {
					tt.during(k)
				}
			}}
			snap, err := d.Snapshot(context.Background(), "k", o)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v; want %v with %q", err, tt.want, tt.text)
			}
			if err == nil && (snap.ID != "s" || !slices.Equal(k.tags, []string{"s"})) || err != nil && (len(k.tags) > 0 || len(k.images) > 1) {
				t.Errorf("%v: %+v, tags %v, images %v", err, snap, k.tags, k.images)
			}
			thawed := slices.ContainsFunc(k.log, func(r string) bool { return strings.HasSuffix(r, "/unpause") })
			if taken := tt.name == "taken over"; thawed == taken {
				t.Errorf("it was let go on: %t", thawed)
			}
			if tt.refuse == "" && (len(k.there) > 0 || tt.want == nil && k.state != container.StateRunning) {
				t.Errorf("it is %s, and there are %v", k.state, k.there)
			}
		})
	}
}
