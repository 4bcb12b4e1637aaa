//go:build linux

package image_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/spec"
)

// A Dockerfile from outside of its context makes one image of equal files, whatever builds it
// and however many and large they are; a file that changes while the engine asks for it makes
// none.
func TestBuildOutside(t *testing.T) {
	ctx := testContext(t)
	const size = 5 << 20
	content := strings.Repeat("x", size)
	b := dockerfile(t, fmt.Sprintf("COPY . /c/\nRUN test $(find /c -type f | wc -l) = 1501 && test $(cat /c/large | sha256sum | cut -c-64) = %x\n", sha256.Sum256([]byte(content))))
	text, err := os.ReadFile(filepath.Join(b.Context, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	b.Dockerfile = writeFile(t, filepath.Join(t.TempDir(), "Dockerfile"), string(text))
	b.Context = filepath.Join(t.TempDir(), "context")
	for i := range 1500 {
		writeFile(t, filepath.Join(b.Context, fmt.Sprintf("d%d", i%7), fmt.Sprint(i)), fmt.Sprint(i))
	}
	large := writeFile(t, filepath.Join(b.Context, "large"), content)
	names := map[string]bool{}
	withBuilders(t, func(t *testing.T, o image.Options) {
		store := newStoreAt(t, docker.Host(t), o)
		built, err := store.Build(ctx, b, driver.PrepareOptions{Force: true})
		if err != nil {
			t.Fatalf("%v (hint: %s)", err, spec.HintOf(err))
		}
		names[strings.Join(built.Tags, " ")] = true
		if _, _, err := store.Prune(ctx, driver.Authority{}, time.Now().Add(time.Hour), 0); err != nil {
			t.Error(err)
		}
	})
	if len(names) != 1 {
		t.Errorf("names %v; want one", names)
	}

	host := proxied(t, func(r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/build") { // what there is has been read
			writeFile(t, large, strings.Repeat("y", size))
		}
		return false
	}, unchanged)
	store := newStoreAt(t, host, image.Options{Owner: "o"})
	_, err = store.Build(ctx, b, driver.PrepareOptions{Force: true})
	if !errors.Is(err, spec.ErrInvalid) || !strings.Contains(err.Error(), "changed while it was read") {
		t.Errorf("a file that has changed: %v", err)
	}
	for name := range names {
		if found, err := store.Find(ctx, driver.Authority{}, name); !errors.Is(err, spec.ErrNotFound) {
			t.Errorf("there is an image: %+v, %v", found, err)
		}
	}
}
