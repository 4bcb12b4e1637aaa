package place

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Only the requests about the container itself can say that it is gone: an exec that the
// engine has forgotten, and words about containers in an answer to something else, cannot.
func TestStaleExecIsNoMissingPlace(t *testing.T) {
	const prose = `{"message":"No such container: berth"}`
	for _, tt := range []struct {
		name          string
		create, start int // statuses
		want          error
	}{
		{"the exec is gone", http.StatusCreated, http.StatusNotFound, spec.ErrUnavailable},
		{"the exec fails with words", http.StatusInternalServerError, 0, spec.ErrUnavailable},
		{"the container is gone", http.StatusNotFound, 0, spec.ErrNotFound},
	} {
		d := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/_ping":
			case strings.HasSuffix(r.URL.Path, "/containers/json"):
				if tt.create == http.StatusNotFound {
					fmt.Fprint(w, "[]")
				} else {
					fmt.Fprintf(w, `[{"Id":"c0","Names":["/%s"],"State":"running"}]`, containerName("default", "k"))
				}
			case strings.HasSuffix(r.URL.Path, "/json"):
				fmt.Fprintf(w, `{"Id":"c0","Name":"/%s","State":{"Status":"running","Running":true},"HostConfig":{"NetworkMode":"none"},"Config":{"Labels":{%q:"default",%q:"k"}}}`,
					containerName("default", "k"), labelOwner, labelKey)
			case strings.HasSuffix(r.URL.Path, "/exec"):
				w.WriteHeader(tt.create)
				if tt.create == http.StatusCreated {
					fmt.Fprint(w, `{"Id":"e0"}`)
				} else {
					fmt.Fprint(w, prose)
				}
			case strings.HasSuffix(r.URL.Path, "/start"):
				w.WriteHeader(tt.start)
				fmt.Fprint(w, prose)
			default:
				t.Errorf("%s: %s %s", tt.name, r.Method, r.URL)
			}
		})
		_, err := d.Attach(context.Background(), "k", driver.AttachOptions{})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}
}
