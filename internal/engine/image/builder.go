package image

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/internal/engine/image/buildkit"
	"github.com/berth-dev/berth/spec"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// hubHost is what BuildKit calls Docker Hub.
const hubHost = "registry-1.docker.io"

// session opens the session of a build by BuildKit. Without an error nil means that the
// classic builder is to build: the caller or the engine's configuration says so (an engine
// where nobody said anything names BuildKit, or no builder), or the engine has no session. Where
// the Dockerfile is not in the context the session has the files of both.
func (s *Store) session(ctx context.Context, api *client.Client, source *source, keys map[string]registry.AuthConfig) (*buildkit.Session, error) {
	wanted := s.options.BuildKit
	if wanted != nil && !*wanted {
		return nil, nil
	}
	if wanted == nil {
		ping, err := api.Ping(ctx, client.PingOptions{})
		if err != nil || ping.BuilderVersion == build.BuilderV1 {
			return nil, err
		}
	}
	session, err := buildkit.Open(ctx, api, hostKeys(keys), source.dirs())
	switch {
	case !errors.Is(err, buildkit.ErrNoSession):
		return session, err
	case wanted == nil:
		return nil, nil
	}
	return nil, &spec.Error{Code: spec.CodeUnsupported, Err: err, Hint: "unset DOCKER_BUILDKIT (docker.buildkit) to build with the classic builder where there is no other"}
}

// hostKeys are credentials by the names that BuildKit has for their registries.
func hostKeys(keys map[string]registry.AuthConfig) map[string]buildkit.Key {
	out := map[string]buildkit.Key{}
	for server, key := range keys {
		if server == hubKey {
			server = hubHost
		}
		out[server] = buildkit.Key{User: key.Username, Secret: key.Password}
		if key.IdentityToken != "" {
			out[server] = buildkit.Key{Secret: key.IdentityToken}
		}
	}
	return out
}

// keysOf looks up the credentials for the registries of these images, by the names under
// which they are kept.
func (s *Store) keysOf(ctx context.Context, refs []string) (map[string]registry.AuthConfig, error) {
	keys := map[string]registry.AuthConfig{}
	for _, ref := range refs {
		domain := domainOf(ref)
		if _, have := keys[serverKey(domain)]; have || domain == "" {
			continue
		}
		key, ok, err := s.keys.lookup(ctx, domain)
		if err != nil {
			return nil, err
		}
		if ok {
			keys[serverKey(domain)] = key
		}
	}
	return keys, nil
}

// domainOf is the registry of an image's name, or "" where it has none.
func domainOf(ref string) string {
	name, err := reference.ParseNormalizedNamed(ref)
	if err != nil || LocalOnly(ref) {
		return ""
	}
	return reference.Domain(name)
}
