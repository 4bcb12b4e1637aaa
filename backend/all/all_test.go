package all

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/spec"
)

// A row's name is its driver's, so that what one prints the other understands.
func TestNamesAreTheDrivers(t *testing.T) {
	o := Options{}
	o.Process = process.Options{StateDir: t.TempDir()}
	r := New(o)
	if want := []string{"process", "docker", "podman", "ssh"}; !slices.Equal(r.Names(), want) {
		t.Errorf("names %v, want %v", r.Names(), want)
	}
	for _, b := range r.Backends() {
		d, err := r.Open(b.Name)
		if err != nil {
			// ssh cannot be opened without an address; that is all it may say.
			if b.Name != "ssh" || !errors.Is(err, spec.ErrInvalid) {
				t.Errorf("Open(%s): %v", b.Name, err)
			}
			continue
		}
		if d.Name() != b.Name {
			t.Errorf("row %s opens driver %s", b.Name, d.Name())
		}
	}
}

func TestUnknownName(t *testing.T) {
	_, err := New(Options{}).Open("podmen")
	if !errors.Is(err, spec.ErrInvalid) || spec.HintOf(err) == "" {
		t.Errorf("error %v with hint %q, want ErrInvalid and the names", err, spec.HintOf(err))
	}
}
