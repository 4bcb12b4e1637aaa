package driver

import (
	"context"
	"io"

	"github.com/berth-dev/berth/spec"
)

// Imager is a Driver whose places are made of images. What fails because the engine
// cannot be asked is CodeUnavailable, as ever; a build that was carried out and failed is
// CodeInvalid, with the end of its log as the cause.
type Imager interface {
	// Prepare makes sure that the image of s is there, so that a Provision need not wait
	// for it: it pulls or builds it if it is missing. It starts nothing.
	Prepare(ctx context.Context, s *spec.Spec, o PrepareOptions) (spec.Image, error)
	// Pull gets an image from its registry, also one that is there. ref may have a digest.
	Pull(ctx context.Context, ref string, o PrepareOptions) (spec.Image, error)
	// Build builds b unless an image of equal files and arguments is there.
	Build(ctx context.Context, b spec.Build, o PrepareOptions) (spec.Image, error)
	// Images lists what the engine has, by whomever it was put there, by its first tag.
	Images(ctx context.Context) ([]spec.Image, error)
	// RemoveImage removes an image by its id or name. One that is used by a container is
	// CodeUnavailable, one that is not there CodeNotFound.
	RemoveImage(ctx context.Context, ref string, o ReapOptions) error
}

// PrepareOptions modify Imager's Prepare, Pull and Build.
type PrepareOptions struct {
	Authority Authority
	// Force pulls or builds again what is there: the way to a base image that has moved.
	Force bool
	// NoBuild makes a build that would be needed CodeNotFound.
	NoBuild bool
	// Platform is "linux/arm64", say. "": the engine's own.
	Platform string
	// Progress, if set, is called with how far it is; never concurrently.
	Progress func(spec.Progress)
	// Log, if set, gets the output of a build as it comes.
	Log io.Writer
}

// Pruner is a Driver that can look for what an owner's places, or attempts to make some,
// have left behind: helpers, volumes and networks without a container, images that Berth has
// built and nothing uses, what is left of snapshots that failed, guests that no container
// mounts. It touches no snapshot, nothing that is in use, and nothing of another owner or of
// anybody else. What it has removed is told also beside an error.
type Pruner interface {
	Prune(ctx context.Context, o ReapOptions) (spec.Pruned, error)
}
