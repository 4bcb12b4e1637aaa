package snapshot

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	// signEvery is how often whoever has a hold shows a sign of life, deadAfter how long
	// another one waits for it, and lookEvery how often they look.
	signEvery = 3 * time.Second
	deadAfter = 20 * time.Second
	lookEvery = 200 * time.Millisecond

	signDir  = "/"
	signFile = ".berth-alive"
)

// Hold is the right to take a snapshot of a place, which one at a time has, of all who ask
// the engine. It is a container that never runs, whose name is made of the place's.
type Hold struct {
	// TakenOver: whoever had it before has died, and did not let the place go on.
	TakenOver bool

	store *Store
	id    string
	end   func() // ends the signs of life
}

// Hold waits until nobody else holds the place that is a container of that name and labels,
// or whoever does shows no sign of life. It does not touch the container.
func (s *Store) Hold(ctx context.Context, auth driver.Authority, place string, labels map[string]string) (*Hold, error) {
	items, err := s.Engine.List(ctx, auth, labels)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(items, func(c container.Summary) bool { return slices.Contains(c.Names, "/"+place) })
	if at < 0 {
		return nil, spec.New(spec.CodeNotFound, "there is no container "+place)
	}
	name, image, over := HoldOn(place), items[at].ImageID, false
	var seen engine.Vigil
	for {
		id, err := s.Engine.Create(ctx, auth, idle(name, image, map[string]string{LabelOwner: s.Owner}, nil))
		if err == nil {
			return s.held(ctx, id, over), nil
		}
		if !errors.Is(err, engine.ErrTaken) {
			return nil, err
		}
		dead, err := s.look(ctx, auth, name, &seen)
		if err == nil && dead {
			err, over = s.Engine.Remove(ctx, auth, seen.ID), true
		}
		if err == nil {
			err = engine.Pause(ctx, lookEvery)
		}
		if err != nil {
			return nil, err
		}
	}
}

// held shows signs of life from now on, whatever becomes of ctx.
func (s *Store) held(ctx context.Context, id string, over bool) *Hold {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for engine.Pause(ctx, signEvery) == nil {
			// What cannot be shown is tried again; Lost says whether it was in time.
			_ = s.Engine.Put(ctx, driver.Authority{}, id, signDir, signOfLife())
		}
	}()
	return &Hold{TakenOver: over, store: s, id: id, end: func() { cancel(); <-done }}
}

// Lost reports whether somebody else has taken over, and the place is theirs to let go on.
func (h *Hold) Lost(ctx context.Context) bool {
	_, err := h.store.Engine.State(ctx, driver.Authority{}, h.id)
	return spec.CodeOf(err) == spec.CodeNotFound
}

// Break takes the hold of a place away from whoever has it: their snapshot is given up, and
// they do not let the place go on.
func (s *Store) Break(ctx context.Context, auth driver.Authority, place string) error {
	return s.Engine.Remove(ctx, auth, HoldOn(place))
}

// Release lets the next one have the place. It says nothing of a failure: whoever comes finds
// no sign of life, and a prune removes what is left.
func (h *Hold) Release(ctx context.Context) {
	h.end()
	bg, cancel := engine.Cleanup(ctx)
	defer cancel()
	_ = h.store.Engine.Remove(bg, driver.Authority{}, h.id)
}

// look reports whether the hold of a name has been without a sign of life for too long.
func (s *Store) look(ctx context.Context, auth driver.Authority, name string, seen *engine.Vigil) (dead bool, _ error) {
	return seen.Dead(ctx, signEvery, deadAfter, func(ctx context.Context) (id, sign string, err error) {
		c, err := s.Engine.Inspect(ctx, auth, name)
		if err != nil {
			return "", "", err
		}
		if c.Config.Labels[LabelOwner] != s.Owner {
			return "", "", &spec.Error{Code: spec.CodeExists, Err: fmt.Errorf("container %s is not ours", name)}
		}
		st, err := s.Engine.Stat(ctx, auth, c.ID, signDir+signFile)
		if spec.CodeOf(err) == spec.CodeFileNotFound { // it has shown none yet
			return c.ID, "", nil
		}
		return c.ID, st.Mtime.UTC().String(), err
	})
}

// signOfLife is an archive with a file that is as old as now.
func signOfLife() []byte {
	var buf bytes.Buffer
	archive := tar.NewWriter(&buf)
	_ = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: signFile, Mode: 0o600, ModTime: time.Now()}) // to memory
	_ = archive.Close()
	return buf.Bytes()
}

// idle describes a container that never runs.
func idle(name, image string, labels map[string]string, env []string) client.ContainerCreateOptions {
	return client.ContainerCreateOptions{
		Name:       name,
		Config:     &container.Config{Image: image, Entrypoint: []string{"/"}, Cmd: []string{}, WorkingDir: "/", Labels: labels, Env: env},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	}
}
