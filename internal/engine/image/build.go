package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

const (
	// Repository holds the images that Build makes. Podman looks for names below
	// localhost nowhere else.
	Repository = "localhost/berth-build"

	// buildLimit bounds a build.
	buildLimit = 15 * time.Minute
	// maxLogEnd is how much of a failed build's log is in its error.
	maxLogEnd = 1 << 10
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
		if err := s.refresh(ctx, bases, o); err != nil {
			return err
		}
	}
	options, err := s.buildOptions(ctx, source, hash, bases, o)
	if err != nil {
		return err
	}
	log := &buildLog{out: o.Log, progress: o.Progress}
	call := engine.Call{Authority: o.Authority, What: "build image", Max: buildLimit, Changes: true}
	return s.engine.Do(ctx, call, func(ctx context.Context, api *client.Client) error {
		content, sink := io.Pipe()
		sent := make(chan error, 1)
		go func() {
			err := source.send(sink, hash)
			sink.CloseWithError(err)
			sent <- err
		}()
		err := carryOut(ctx, api, content, options, log)
		// Whoever sends is gone before the context's files are closed.
		content.CloseWithError(io.ErrClosedPipe)
		if own, ok := errors.AsType[*spec.Error](<-sent); ok {
			return own // the engine can only say that the archive ended too soon
		}
		return err
	})
}

// carryOut sends a build and follows it to its end.
func carryOut(ctx context.Context, api *client.Client, content io.Reader, o client.ImageBuildOptions, log *buildLog) error {
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

func (s *Store) buildOptions(ctx context.Context, source *source, hash string, bases []string, o driver.PrepareOptions) (client.ImageBuildOptions, error) {
	platforms, err := platform(o.Platform)
	if err != nil {
		return client.ImageBuildOptions{}, err
	}
	args := map[string]*string{}
	for name, value := range source.args {
		args[name] = &value
	}
	keys := map[string]registry.AuthConfig{}
	for _, base := range bases {
		domain := domainOf(base)
		if _, have := keys[serverKey(domain)]; have || domain == "" {
			continue
		}
		key, ok, err := s.keys.lookup(ctx, domain)
		if err != nil {
			return client.ImageBuildOptions{}, err
		}
		if ok {
			keys[serverKey(domain)] = key
		}
	}
	return client.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{Repository + ":" + hash}, Dockerfile: source.name(hash),
		Labels: map[string]string{labelBuilt: s.options.Owner}, BuildArgs: args, AuthConfigs: keys, Platforms: platforms,
		NoCache: o.Force, Remove: true, ForceRemove: true,
	}, nil
}

// domainOf is the registry of an image's name, or "" where it has none.
func domainOf(ref string) string {
	name, err := reference.ParseNormalizedNamed(ref)
	if err != nil || LocalOnly(ref) {
		return ""
	}
	return reference.Domain(name)
}

// buildLog takes in what a build says.
type buildLog struct {
	out      io.Writer // may be nil
	progress func(spec.Progress)
	end      []byte // the last of it
}

func (l *buildLog) take(m message) {
	if p, ok := m.layer(); ok { // of a base image
		if l.progress != nil {
			l.progress(p)
		}
		return
	}
	text := m.Stream
	if text == "" && m.Status != "" {
		text = m.Status + "\n"
	}
	if text == "" {
		return
	}
	l.end = append(l.end, text...)
	l.end = l.end[max(0, len(l.end)-maxLogEnd):]
	if l.out != nil {
		if _, err := io.WriteString(l.out, text); err != nil {
			l.out = nil // nobody reads it; the build goes on
		}
	}
	if step := strings.TrimSpace(m.Stream); l.progress != nil && strings.HasPrefix(step, "Step ") {
		l.progress(spec.Progress{Step: "build", Message: clip(step)})
	}
}

// failed is the error of a build that was carried out and failed.
func (l *buildLog) failed(why string) error {
	err := errors.New("the build failed: " + clip(why))
	if end := strings.TrimSpace(strings.ToValidUTF8(string(l.end), "?")); end != "" {
		err = fmt.Errorf("%w; its log ends: %s", err, end)
	}
	out := &spec.Error{Code: spec.CodeInvalid, Err: err}
	if containsAny(why, "unknown flag: mount", "BuildKit", "buildkit", "heredoc", "here-document") {
		out.Hint = "the Dockerfile needs BuildKit: build it with `docker buildx build --tag NAME`, and use the image"
	}
	return out
}
