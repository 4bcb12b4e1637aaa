package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/image/buildkit"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"
)

const (
	// Repository holds the images that Build makes. Podman looks for names below
	// localhost nowhere else.
	Repository = "localhost/berth-build"

	// formerPrefix begins the tags of images there whose own name another one has got.
	formerPrefix = "was-"

	// buildLimit bounds a build.
	buildLimit = 15 * time.Minute
)

// Name returns the name of the image of a build, whether the engine has it or not. It asks
// nobody.
func Name(ctx context.Context, b spec.Build, platform string) (string, error) {
	source, err := openSource(b, platform)
	if err != nil {
		return "", err
	}
	defer source.Close()
	hash, err := source.hash(ctx)
	return Repository + ":" + hash, err
}

// Build returns the image of a build, making it if the engine has none; see
// driver.Imager.
func (s *Store) Build(ctx context.Context, b spec.Build, o driver.PrepareOptions) (spec.Image, error) {
	if err := b.Validate(); err != nil {
		return spec.Image{}, err
	}
	source, err := openSource(b, o.Platform)
	if err != nil {
		return spec.Image{}, err
	}
	defer source.Close()
	hash, err := source.hash(ctx)
	if err != nil {
		return spec.Image{}, err
	}
	name := Repository + ":" + hash
	select {
	case s.building <- struct{}{}:
		defer func() { <-s.building }()
	case <-ctx.Done():
		return spec.Image{}, ctx.Err()
	}
	if !o.Force {
		found, err := s.Find(ctx, o.Authority, name)
		if err == nil || spec.CodeOf(err) != spec.CodeNotFound {
			return found, err
		}
	}
	if o.NoBuild {
		return spec.Image{}, &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("image %s is not there, and building is not allowed", name), Hint: "berth image build " + b.Context}
	}
	if err := s.build(ctx, source, hash, o); err != nil {
		return spec.Image{}, err
	}
	return s.Find(ctx, o.Authority, name)
}

func (s *Store) build(ctx context.Context, source *source, hash string, o driver.PrepareOptions) error {
	bases := source.bases()
	if o.Force {
		// An image without a name is known to be ours by nothing: whatever is made of one of
		// ours has its labels.
		done, err := s.keepNamed(ctx, o.Authority, hash)
		if err != nil {
			return err
		}
		defer done()
		if err := s.refresh(ctx, bases, o); err != nil {
			return err
		}
	}
	options, err := s.buildOptions(source, hash, o)
	if err != nil {
		return err
	}
	keys, err := s.keysOf(ctx, bases)
	if err != nil {
		return err
	}
	log := newBuildLog(o)
	call := engine.Call{Authority: o.Authority, What: "build image", Max: buildLimit, Changes: true}
	return s.engine.Do(ctx, call, func(ctx context.Context, api *client.Client) error {
		session, err := s.session(ctx, api, source, keys)
		if err != nil {
			return err
		}
		if session == nil {
			options.Version, options.AuthConfigs = build.BuilderV1, keys
			return carryOut(ctx, api, source, hash, options, log)
		}
		defer session.Close()
		options.Version, options.SessionID, options.BuildID = build.BuilderBuildKit, session.ID, session.ID
		if source.inside == "" {
			err = carryOutAsked(ctx, api, session, options, log)
		} else {
			err = carryOut(ctx, api, source, hash, options, log)
		}
		if ctx.Err() != nil {
			abandon(ctx, api, session.ID)
		}
		return err
	})
}

// keepNamed gives the image that a build is about to take its name from another one, by which
// a prune knows it, and returns what removes that, and the image unless something uses it.
func (s *Store) keepNamed(ctx context.Context, auth driver.Authority, hash string) (done func(), err error) {
	old, err := s.Find(ctx, auth, Repository+":"+hash)
	if spec.CodeOf(err) == spec.CodeNotFound {
		return func() {}, nil
	}
	name := Repository + ":" + formerPrefix + hash + "-" + idPart(old.ID)
	if err == nil {
		err = s.engine.Do(ctx, engine.Call{Authority: auth, What: "tag image", Changes: true}, func(ctx context.Context, api *client.Client) error {
			_, err := api.ImageTag(ctx, client.ImageTagOptions{Source: old.ID, Target: name})
			return err
		})
	}
	return func() {
		ctx, cancel := engine.Cleanup(ctx)
		defer cancel()
		_ = s.Remove(ctx, auth, name) // or a prune does
	}, err
}

// idPart is enough of an image's id to be a part of a name.
func idPart(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(len(id), 12)]
}

// carryOut sends a build with its context and follows it to its end.
func carryOut(ctx context.Context, api *client.Client, source *source, hash string, o client.ImageBuildOptions, log *buildLog) error {
	content, sink := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := source.send(sink, hash)
		sink.CloseWithError(err)
		sent <- err
	}()
	err := follow(ctx, api, content, o, log)
	// Whoever sends is gone before the context's files are closed.
	content.CloseWithError(io.ErrClosedPipe)
	if own, ok := errors.AsType[*spec.Error](<-sent); ok {
		return own // the engine can only say that the archive ended too soon
	}
	return err
}

// carryOutAsked follows a build to its end whose files the engine asks for in its session, which
// is closed then.
func carryOutAsked(ctx context.Context, api *client.Client, session *buildkit.Session, o client.ImageBuildOptions, log *buildLog) error {
	o.RemoteContext, o.Dockerfile = buildkit.Remote, buildkit.Dockerfile
	err := follow(ctx, api, http.NoBody, o, log)
	// Whoever sends is gone before the context's files are closed.
	session.Close()
	if own, ok := errors.AsType[*spec.Error](session.Err()); ok && err != nil {
		return own // the engine can only say that a call has failed
	}
	return err
}

func follow(ctx context.Context, api *client.Client, content io.Reader, o client.ImageBuildOptions, log *buildLog) error {
	res, err := api.ImageBuild(ctx, content, o)
	if cerrdefs.IsInvalidArgument(err) {
		return log.failed(strings.TrimPrefix(err.Error(), "Error response from daemon: "))
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = readMessages(res.Body, log.take)
	if r, ok := errors.AsType[*refusal](err); ok {
		return log.failed(r.text)
	}
	return err
}

// abandon tells the engine that nobody waits for a build of BuildKit any more. It would see
// so by the end of the connection, but for what may lie between and keeps that open.
func abandon(ctx context.Context, api *client.Client, id string) {
	ctx, cancel := engine.Cleanup(ctx)
	defer cancel()
	// The caller has gone: there is nobody to tell that the engine could not be told.
	_, _ = api.BuildCancel(ctx, id, client.BuildCancelOptions{})
}

func (s *Store) buildOptions(source *source, hash string, o driver.PrepareOptions) (client.ImageBuildOptions, error) {
	platforms, err := platform(o.Platform)
	if err != nil {
		return client.ImageBuildOptions{}, err
	}
	args := map[string]*string{}
	for name, value := range source.args {
		args[name] = &value
	}
	return client.ImageBuildOptions{
		Tags: []string{Repository + ":" + hash}, Dockerfile: source.name(hash),
		Labels: map[string]string{labelBuilt: s.options.Owner}, BuildArgs: args, Platforms: platforms,
		NoCache: o.Force, Remove: true, ForceRemove: true,
	}, nil
}
