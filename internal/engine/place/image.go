package place

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/image"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
)

// Prepare implements driver.Imager.
func (d *Driver) Prepare(ctx context.Context, s *spec.Spec, o driver.PrepareOptions) (spec.Image, error) {
	switch {
	case s.Build != nil:
		return d.images.Build(ctx, *s.Build, o)
	case s.Image == "":
		return spec.Image{}, noImage()
	}
	return d.images.Have(ctx, s.Image, o)
}

// Pull implements driver.Imager.
func (d *Driver) Pull(ctx context.Context, ref string, o driver.PrepareOptions) (spec.Image, error) {
	return d.images.Pull(ctx, ref, o)
}

// Build implements driver.Imager.
func (d *Driver) Build(ctx context.Context, b spec.Build, o driver.PrepareOptions) (spec.Image, error) {
	return d.images.Build(ctx, b, o)
}

// Images implements driver.Imager.
func (d *Driver) Images(ctx context.Context) ([]spec.Image, error) { return d.images.List(ctx) }

// RemoveImage implements driver.Imager.
func (d *Driver) RemoveImage(ctx context.Context, ref string, o driver.ReapOptions) error {
	return d.images.Remove(ctx, o.Authority, ref)
}

// named returns s with the name of the image that its Build makes, which need not be there:
// what a place is made of is settled before its hash.
func named(ctx context.Context, s *spec.Spec) (*spec.Spec, error) {
	if s.Build == nil {
		return s, nil
	}
	name, err := image.Name(ctx, *s.Build, "")
	if err != nil {
		return nil, err
	}
	s = s.Clone()
	s.Image = name
	return s, nil
}

// prepareTries is how often an image is built or pulled that is gone again before a
// container is made of it: nothing uses it meanwhile, and somebody may prune.
const prepareTries = 2

// createFrom creates the container, once its image is there: one that is missing is built
// or pulled.
func (d *Driver) createFrom(ctx context.Context, p *plan) (*container.InspectResponse, error) {
	for try := 0; ; try++ {
		c, err := d.create(ctx, p)
		if !errors.Is(err, engine.ErrNoImage) || try == prepareTries {
			return c, err
		}
		if _, err := d.Prepare(ctx, p.spec, driver.PrepareOptions{Authority: p.auth, Progress: p.progress}); err != nil {
			return nil, err
		}
	}
}

func noImage() error {
	return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("the spec names no image"), Hint: "name one (--image), or what to build it of (--build); `berth image ls` lists what the engine has"}
}
