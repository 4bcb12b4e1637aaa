package place

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// A place that the engine calls paused and cannot let go on, as its processes are gone, can
// be removed; whoever would use it is told what the engine says.
func TestStuckPlaceIsRemoved(t *testing.T) {
	var removed atomic.Int32
	p, c := inspected(t, testDriver(t, Options{}), knobs())
	c.ID, c.Name, c.State.Status = "stuck", "/"+p.name, "paused"
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
			removed.Add(1)
		case strings.HasSuffix(r.URL.Path, "/unpause"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"message":"cannot resume a stopped container"}`))
		case strings.HasSuffix(r.URL.Path, "/exec"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"message":"it is paused"}`))
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			_ = json.NewEncoder(w).Encode([]any{map[string]any{"Id": c.ID, "Names": []string{c.Name}, "State": "paused", "Labels": c.Config.Labels}})
		case strings.Contains(r.URL.Path, "/containers/"):
			_ = json.NewEncoder(w).Encode(c)
		}
	})
	ctx := context.Background()
	if _, err := d.Attach(ctx, p.spec.Key, driver.AttachOptions{}); spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "cannot resume") {
		t.Errorf("attach: %v; want what the engine says", err)
	}
	if err := d.Resume(ctx, p.spec.Key, driver.ReapOptions{}); spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "cannot resume") {
		t.Errorf("resume: %v; want what the engine says", err)
	}
	if err := d.Reap(ctx, p.spec.Key, driver.ReapOptions{}); err != nil || removed.Load() != 1 {
		t.Errorf("reap: %v, and %d removals", err, removed.Load())
	}
}
