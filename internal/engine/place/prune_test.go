package place

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
)

// A prune removes what is stale by the engine's clock and this owner's or nobody's, and
// nothing that runs, is young, is a place with a key, a snapshot, or another owner's, also
// where that owner's name begins with this one's, nor what has the labels of ours and not
// the name. It goes on after a refusal.
func TestPruneTouchesOnlyWhatIsLeft(t *testing.T) {
	now := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) // far from our own time
	old, young := now.Add(-2*time.Minute).Unix(), now.Add(-10*time.Second).Unix()
	labels := func(pairs ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	container := func(name, state string, created int64, pairs ...string) map[string]any {
		return map[string]any{"Id": strings.TrimPrefix(name, "berth-"), "Names": []string{"/" + name}, "State": state, "Created": created, "Labels": labels(pairs...)}
	}
	ephemeral := func(name, state, owner string, created int64) map[string]any {
		c := container(name, state, created, "dev.berth.owner", owner, "dev.berth.key", name, "dev.berth.ephemeral", "true")
		c["Names"] = []string{"/" + containerName(owner, spec.Key(name))}
		return c
	}
	answers := map[string]any{
		"/info": map[string]any{"OSType": "linux", "SystemTime": now.Format(time.RFC3339Nano)},
		"/containers/json": []any{
			container("berth-helper-old", "created", old, "dev.berth.helper", "true"),
			container("berth-helper-young", "created", young, "dev.berth.helper", "true"),
			container("berth-helper-runs", "running", old, "dev.berth.helper", "true"),
			container("berth-helper-theirs", "created", old, "dev.berth.helper", "true", "dev.berth.owner", "default2"),
			container("berth-helper-no", "created", old, "dev.berth.helper", "no"),
			container("berth-snap-1", "created", old, "dev.berth.snapshot-owner", "default"),
			container("berth-snap-2", "created", now.Add(-2*time.Hour).Unix(), "dev.berth.snapshot-owner", "default"),
			container("berth-snap-3", "created", now.Add(-2*time.Hour).Unix(), "dev.berth.snapshot-owner", "default2"),
			ephemeral("tmp-old", "created", "default", old),
			ephemeral("tmp-ended", "exited", "default", old),
			ephemeral("tmp-young", "created", "default", young),
			ephemeral("tmp-runs", "running", "default", old),
			ephemeral("tmp-paused", "paused", "default", old),
			ephemeral("tmp-theirs", "created", "default2", old),
			container("keyed", "created", old, "dev.berth.owner", "default", "dev.berth.key", "k"),
			container("foreign", "exited", old),
			// Of an image that says it is a helper.
			map[string]any{"Id": "place", "Names": []string{"/" + containerName("default", "k2")}, "State": "exited", "Created": old, "Labels": labels("dev.berth.owner", "default", "dev.berth.key", "k2", "dev.berth.helper", "true")},
			container("berth-prep-1", "created", old, "dev.berth.helper", "true"),
			// Made by somebody of an image that was made of a place, or of a helper.
			container("copied", "exited", old, "dev.berth.owner", "default", "dev.berth.key", "tmp-old", "dev.berth.ephemeral", "true"),
			container("copied-helper", "exited", old, "dev.berth.helper", "true"),
		},
		"/volumes": map[string]any{"Volumes": []any{
			map[string]any{"Name": "berth-guest-0123456789ab", "Labels": labels("dev.berth.guest", "0123456789ab")},
			map[string]any{"Name": "berth-guest-mounted", "Labels": labels("dev.berth.guest", "x")},
			map[string]any{"Name": "foreign-guest", "Labels": labels("dev.berth.guest", "x")},
			map[string]any{"Name": "ours", "Labels": labels("dev.berth.owner", "default")},
			map[string]any{"Name": "theirs", "Labels": labels("dev.berth.owner", "default2")},
		}},
		"/networks": []any{
			map[string]any{"Name": "net-ours", "Id": "net-ours", "Created": now.Add(-time.Hour), "Labels": labels("dev.berth.owner", "default")},
			map[string]any{"Name": "net-young", "Id": "net-young", "Created": now, "Labels": labels("dev.berth.owner", "default")},
			map[string]any{"Name": "net-theirs", "Id": "net-theirs", "Created": now.Add(-time.Hour), "Labels": labels("dev.berth.owner", "default2")},
		},
		"/images/json": []any{
			map[string]any{"Id": "b1", "RepoTags": []string{"localhost/berth-build:1", "mine:1"}, "Size": 5, "Created": old, "Labels": labels("dev.berth.built", "default")},
			map[string]any{"Id": "b2", "RepoTags": []string{"localhost/berth-build:2"}, "Size": 7, "Created": young, "Labels": labels("dev.berth.built", "default")},
			map[string]any{"Id": "b3", "RepoTags": []string{"localhost/berth-build:3"}, "Size": 1, "Created": old, "Labels": labels("dev.berth.built", "default2")},
			// Made by somebody of one that was built, or of a place.
			map[string]any{"Id": strings.Repeat("2", 64), "Size": 1, "Created": old, "Labels": labels("dev.berth.built", "default")},
			map[string]any{"Id": strings.Repeat("3", 64), "Size": 1, "Created": old, "Labels": labels("dev.berth.snapshot-owner", "default", "dev.berth.key", "k")},
			map[string]any{"Id": strings.Repeat("4", 64), "RepoDigests": []string{"r/i@sha256:" + strings.Repeat("4", 64)}, "Size": 1, "Created": old, "Labels": labels("dev.berth.snapshot-owner", "default")},
			map[string]any{"Id": strings.Repeat("0", 64), "RepoDigests": []string{"<none>@<none>"}, "RepoTags": []string{"<none>:<none>"}, "Size": 1, "Created": old, "Labels": labels("dev.berth.snapshot-owner", "default")},
			map[string]any{"Id": strings.Repeat("1", 64), "RepoTags": nil, "Size": 1, "Created": young, "Labels": labels("dev.berth.snapshot-owner", "default")},
			map[string]any{"Id": "s1", "RepoTags": []string{"berth-snapshot/0:a"}, "Size": 1, "Created": old, "Labels": labels("dev.berth.snapshot-owner", "default")},
			map[string]any{"Id": "s2", "RepoTags": []string{"berth-removed:2"}, "Size": 1, "Created": old, "Labels": labels("dev.berth.snapshot-owner", "default")},
		},
	}
	var mu sync.Mutex
	var removed []string
	d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		path = "/" + path
		switch {
		case r.Method == http.MethodDelete && strings.Contains(path, "mounted"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"message":"it is in use"}`))
		case r.Method == http.MethodDelete:
			mu.Lock()
			if strings.HasPrefix(path, "/containers/") && (r.URL.Query().Get("v") == "1") == strings.Contains(path, "prep-") {
				t.Errorf("%s: volumes %q", path, r.URL.Query().Get("v"))
			}
			removed = append(removed, path)
			mu.Unlock()
			_, _ = w.Write([]byte(`[]`))
		case answers[path] != nil:
			_ = json.NewEncoder(w).Encode(answers[path])
		default:
			_, _ = w.Write([]byte(`{}`))
		}
	})
	done, err := d.Prune(context.Background(), driver.ReapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(removed)
	want := []string{
		"/containers/helper-old", "/containers/prep-1", "/containers/snap-2", "/containers/tmp-ended", "/containers/tmp-old",
		"/images/" + strings.Repeat("0", 64), "/images/berth-removed:2", "/images/localhost/berth-build:1", "/images/localhost/berth-build:2",
		"/networks/net-ours", "/volumes/berth-guest-0123456789ab", "/volumes/ours",
	}
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if len(done.Containers) != 5 || len(done.Volumes) != 2 || len(done.Networks) != 1 || len(done.Images) != 4 || done.FreedBytes != 9 {
		t.Errorf("told %+v", done)
	}
}
