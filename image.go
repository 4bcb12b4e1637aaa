package berth

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Prepare makes sure that the image of s is there, so that a Provision need not wait for
// it: it is pulled or built if it is missing. It starts nothing, and a place that exists
// stays as it is. A driver without images is ErrUnsupported, as it is for all that follows.
func Prepare(ctx context.Context, d driver.Driver, s Spec, o PrepareOptions) (Image, error) {
	if err := s.Validate(); err != nil {
		return Image{}, spec.Wrap(err, "prepare", d.Name(), "", "")
	}
	return withImages(d, "prepare", func(i driver.Imager) (Image, error) { return i.Prepare(ctx, s.Clone(), o) })
}

// Pull gets the image ref, "[REGISTRY/]NAME[:TAG][@DIGEST]", from its registry, also one
// that is there. ErrPermission: the registry refuses; ErrNotFound: it has no such image;
// ErrUnavailable: it, or the engine, cannot be reached.
func Pull(ctx context.Context, d driver.Driver, ref string, o PrepareOptions) (Image, error) {
	return withImages(d, "pull", func(i driver.Imager) (Image, error) { return i.Pull(ctx, ref, o) })
}

// BuildImage builds b unless an image of equal files and arguments is there. A build that
// failed is ErrInvalid, with the end of its log; the end of ctx ends it.
func BuildImage(ctx context.Context, d driver.Driver, b Build, o PrepareOptions) (Image, error) {
	if err := b.Validate(); err != nil {
		return Image{}, spec.Wrap(err, "build", d.Name(), "", "")
	}
	return withImages(d, "build", func(i driver.Imager) (Image, error) { return i.Build(ctx, b, o) })
}

// Images lists what the engine of d has, by whomever it was put there, by its first tag.
func Images(ctx context.Context, d driver.Driver) ([]Image, error) {
	return withImages(d, "images", func(i driver.Imager) ([]Image, error) { return i.Images(ctx) })
}

// RemoveImage removes an image by its id or name. One that a container uses is
// ErrUnavailable, one that is not there ErrNotFound.
func RemoveImage(ctx context.Context, d driver.Driver, ref string, o ReapOptions) error {
	_, err := withImages(d, "remove image", func(i driver.Imager) (struct{}, error) { return struct{}{}, i.RemoveImage(ctx, ref, o) })
	return err
}

// withImages does what takes images, if the driver has any.
func withImages[T any](d driver.Driver, op string, do func(driver.Imager) (T, error)) (T, error) {
	i, ok := d.(driver.Imager)
	if !ok {
		var none T
		err := &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("places of this backend are made of no image"), Hint: "images are for containers: use a backend that has them (docker, podman)"}
		return none, spec.Wrap(err, op, d.Name(), "", "")
	}
	result, err := do(i)
	return result, spec.Wrap(err, op, d.Name(), "", "")
}

// Prune removes what the places of this owner, or attempts to make some, have left behind,
// and nothing that is in use or anybody else's; see driver.Pruner. What it has removed is
// told also beside an error. A driver whose places leave nothing behind is ErrUnsupported.
func Prune(ctx context.Context, d driver.Driver, o ReapOptions) (Pruned, error) {
	p, ok := d.(driver.Pruner)
	if !ok {
		return Pruned{}, spec.Wrap(spec.New(spec.CodeUnsupported, "places of this backend leave nothing behind that could be pruned"), "prune", d.Name(), "", "")
	}
	pruned, err := p.Prune(ctx, o)
	return pruned, spec.Wrap(err, "prune", d.Name(), "", "")
}

// Prepare makes sure that the image of the sandbox is there, so that its first use need not
// wait for it; see the function Prepare. It starts nothing.
func (sb *Sandbox) Prepare(ctx context.Context, o PrepareOptions) (Image, error) {
	return Prepare(ctx, sb.driver, *sb.spec, o)
}
