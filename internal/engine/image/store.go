package image

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/internal/engine/snapshot"
	"github.com/berth-dev/berth/spec"
	"github.com/distribution/reference"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// labelBuilt is on an image that Build has made; its value is the owner for whom. It is
// not that of a place's owner: containers inherit the labels of their image. It is read
// back: its name is for ever.
const labelBuilt = "dev.berth.built"

// Options configure New.
type Options struct {
	// Owner is whose images Build makes and Prune removes; in the grammar of a key.
	Owner string
	// ConfigDir is the directory of the docker command's config.json, where credentials
	// for registries are. "": there are none.
	ConfigDir string
	// BuildKit says whether BuildKit builds, rather than the classic builder. nil: where
	// the engine has it and does not name the other.
	BuildKit *bool
}

// Store is the images of an engine. It is safe for concurrent use.
type Store struct {
	engine  *engine.Engine
	options Options
	keys    keychain
	// building is held by the one build that is under way: whoever waits for it may find
	// what they want made.
	building chan struct{}
}

// New returns the images of an engine. It makes no call.
func New(e *engine.Engine, o Options) *Store {
	return &Store{engine: e, options: o, keys: keychain{dir: o.ConfigDir}, building: make(chan struct{}, 1)}
}

// Find describes the image that has this name or id. CodeNotFound: the engine has none.
func (s *Store) Find(ctx context.Context, auth driver.Authority, ref string) (spec.Image, error) {
	res, err := s.inspect(ctx, auth, ref)
	if err != nil {
		return spec.Image{}, err
	}
	return describe(res), nil
}

// Volumes returns the directories that an image declares to be volumes; of one that the engine
// does not have, none.
func (s *Store) Volumes(ctx context.Context, auth driver.Authority, ref string) ([]string, error) {
	res, err := s.inspect(ctx, auth, ref)
	switch {
	case spec.CodeOf(err) == spec.CodeNotFound:
		return nil, nil
	case err != nil || res.Config == nil:
		return nil, err
	}
	return slices.Collect(maps.Keys(res.Config.Volumes)), nil
}

func (s *Store) inspect(ctx context.Context, auth driver.Authority, ref string) (client.ImageInspectResult, error) {
	var res client.ImageInspectResult
	if err := checkRef(ref); err != nil {
		return res, err
	}
	err := s.engine.Do(ctx, engine.Call{Authority: auth, What: "inspect image", Reads: true}, func(ctx context.Context, api *client.Client) error {
		var err error
		res, err = api.ImageInspect(ctx, ref)
		return err
	})
	if spec.CodeOf(err) == spec.CodeNotFound {
		err = &spec.Error{Code: spec.CodeNotFound, Err: errors.New("image " + ref + " is not on the engine"), Hint: "berth image pull " + ref}
		if LocalOnly(ref) {
			err.(*spec.Error).Hint = ""
		}
	}
	return res, err
}

// describe makes a row of an engine's answer.
func describe(res client.ImageInspectResult) spec.Image {
	image := spec.Image{ID: res.ID, Tags: named(res.RepoTags), Digests: named(res.RepoDigests), SizeBytes: max(res.Size, 0)}
	image.Created, _ = time.Parse(time.RFC3339Nano, res.Created)
	if res.Config != nil {
		image.Built, image.Snapshot = ours(res.Config.Labels)
	}
	return image
}

func ours(labels map[string]string) (built, kept bool) {
	return labels[labelBuilt] != "", labels[snapshot.LabelID] != ""
}

// named returns names in order, without the engine's words for there being none.
func named(in []string) []string {
	out := make([]string, 0, len(in))
	for _, name := range in {
		if !strings.HasPrefix(name, "<none>") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// imageID is how an engine names an image: by the hash of its configuration.
var imageID = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// LocalOnly reports whether no registry could have an image of this name: an id, a
// snapshot, or a name below localhost.
func LocalOnly(ref string) bool {
	return imageID.MatchString(ref) || strings.HasPrefix(ref, "localhost/") || snapshot.Alive([]string{ref})
}

// checkRef refuses what is no name of an image: it would be part of a request's path.
func checkRef(ref string) error {
	if imageID.MatchString(ref) {
		return nil
	}
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return &spec.Error{Code: spec.CodeInvalid, Err: errors.New("image " + clip(ref) + ": " + err.Error()), Hint: "want [REGISTRY/]NAME[:TAG][@DIGEST], in lower case, or an id"}
	}
	return nil
}

// platform reads "os/arch" or "os/arch/variant". "" is nil: the engine's own.
func platform(text string) ([]ocispec.Platform, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || !reference.NameRegexp.MatchString(text) {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: errors.New("platform " + clip(text) + ": want OS/ARCH"), Hint: "linux/arm64, say"}
	}
	p := ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) > 2 {
		p.Variant = parts[2]
	}
	return []ocispec.Platform{p}, nil
}

// clip bounds a text of somebody else's in a message.
func clip(s string) string {
	const most = 256
	return strings.ToValidUTF8(s[:min(len(s), most)], "?")
}
