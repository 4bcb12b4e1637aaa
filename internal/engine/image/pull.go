package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// pullLimit bounds a pull. Its caller's context is what ends one sooner.
const pullLimit = 30 * time.Minute

// Have returns the image of that name, pulling it if the engine has none for the platform.
func (s *Store) Have(ctx context.Context, ref string, o driver.PrepareOptions) (spec.Image, error) {
	if o.Force {
		return s.Pull(ctx, ref, o)
	}
	want, err := platform(o.Platform)
	if err != nil {
		return spec.Image{}, err
	}
	found, err := s.inspect(ctx, o.Authority, ref)
	if err == nil && suits(found, want) {
		return describe(found), nil
	}
	if err != nil && (spec.CodeOf(err) != spec.CodeNotFound || LocalOnly(ref)) {
		return spec.Image{}, err
	}
	image, pulled := s.Pull(ctx, ref, o)
	if e, ok := errors.AsType[*spec.Error](pulled); ok && err != nil {
		return image, &spec.Error{Code: e.Code, Err: fmt.Errorf("image %s is not on the engine, and %w", ref, e.Err), Hint: cmp.Or(e.Hint, "`berth image ls` lists what is there, `berth image build` makes one")}
	}
	return image, pulled
}

// Pull gets an image from its registry.
func (s *Store) Pull(ctx context.Context, ref string, o driver.PrepareOptions) (spec.Image, error) {
	if err := checkRef(ref); err != nil {
		return spec.Image{}, err
	}
	if LocalOnly(ref) {
		return spec.Image{}, spec.New(spec.CodeNotFound, "no registry has an image "+ref+": such names are this engine's own")
	}
	platforms, err := platform(o.Platform)
	if err != nil {
		return spec.Image{}, err
	}
	name, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return spec.Image{}, err
	}
	header, err := s.keys.header(ctx, reference.Domain(name))
	if err != nil {
		return spec.Image{}, err
	}
	call := engine.Call{Authority: o.Authority, What: "pull image", Max: pullLimit}
	err = s.engine.Do(ctx, call, func(ctx context.Context, api *client.Client) error {
		res, err := api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: header, Platforms: platforms})
		if err != nil {
			return s.judge(name, err)
		}
		defer res.Close()
		return s.judge(name, readMessages(res, func(m message) error {
			if p, ok := m.layer(); ok && o.Progress != nil {
				o.Progress(p)
			}
			return nil
		}))
	})
	if err != nil {
		return spec.Image{}, err
	}
	return s.pulled(ctx, o.Authority, name, platforms)
}

// pulled describes what a pull has brought, and checks that it is what was asked for: some
// engines take what a registry has for another platform.
func (s *Store) pulled(ctx context.Context, auth driver.Authority, name reference.Named, want []ocispec.Platform) (spec.Image, error) {
	name = reference.TagNameOnly(name)
	pinned, ok := name.(reference.Digested)
	if ok {
		var err error
		if name, err = reference.WithDigest(reference.TrimNamed(name), pinned.Digest()); err != nil {
			return spec.Image{}, err
		}
	}
	found, err := s.inspect(ctx, auth, name.String())
	if err != nil {
		return spec.Image{}, err
	}
	if !suits(found, want) {
		return spec.Image{}, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("%s has %s for %.32s/%.32s only", reference.Domain(name), name, found.Os, found.Architecture)}
	}
	has := func(digest string) bool { return strings.HasSuffix(digest, "@"+pinned.Digest().String()) }
	if ok && !slices.ContainsFunc(found.RepoDigests, has) {
		return spec.Image{}, spec.New(spec.CodeInternal, fmt.Sprintf("the engine pulled image %s in place of the one that has the digest %s", found.ID, pinned.Digest()))
	}
	return describe(found), nil
}

// suits reports whether an image is for a platform; without one any is.
func suits(found client.ImageInspectResult, want []ocispec.Platform) bool {
	return len(want) == 0 || want[0].OS == found.Os && want[0].Architecture == found.Architecture
}

// judge says what the failure of a pull means, where the engine has answered. Anything
// else is left as it is, for Engine.Do to say.
func (s *Store) judge(name reference.Named, err error) error {
	_, inStream := errors.AsType[*refusal](err)
	answered := inStream || cerrdefs.IsNotFound(err) || cerrdefs.IsInternal(err) || cerrdefs.IsUnauthorized(err) || cerrdefs.IsPermissionDenied(err)
	if err == nil || !answered {
		return err
	}
	registry := reference.Domain(name)
	text := clip(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
	out := &spec.Error{Code: spec.CodeUnavailable, Hint: "the engine asks " + registry + ": is it up, and can the engine's machine reach it?"}
	switch what := strings.ToLower(text); {
	case containsAny(what, "denied", "unauthorized", "authentication required", "no basic auth", "incorrect username", "forbidden"):
		out.Code, out.Err = spec.CodePermission, fmt.Errorf("the pull was refused by %s: %s", registry, text)
		out.Hint = "log in with `docker login " + registry + "`; if that is done, see that the name is right and may be read"
		if registry == dockerHub {
			out.Hint = strings.Replace(out.Hint, " "+registry, "", 1)
		}
	case containsAny(what, "not found", "manifest unknown", "name unknown", "no matching manifest", "does not match the specified platform", "verification failed"):
		out.Code, out.Err = spec.CodeNotFound, fmt.Errorf("%s has no such image: %s", registry, text)
		out.Hint = "see that name, tag, digest and platform are right"
	case containsAny(what, "no space left"):
		out.Code, out.Err = spec.CodeNoSpace, fmt.Errorf("the pull from %s failed: %s", registry, text)
		out.Hint = "berth prune removes what nothing uses"
	default:
		out.Err = fmt.Errorf("the pull from %s failed: %s", registry, text)
	}
	return out
}

func containsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}
