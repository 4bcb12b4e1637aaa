package engine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	// goneLimit bounds the wait for a removal that somebody else began.
	goneLimit = 15 * time.Second
	// mostGivenUp is how often the engine may give up a removal, each time after
	// some ten seconds.
	mostGivenUp = 2
	// PollEvery is how often a state is asked for that nobody announces.
	PollEvery = 50 * time.Millisecond
)

// Inspect describes the container with exactly this name or id.
func (e *Engine) Inspect(ctx context.Context, auth driver.Authority, id string) (*container.InspectResponse, error) {
	var c container.InspectResponse
	err := e.Do(ctx, Call{Authority: auth, What: "inspect container", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		c = res.Container
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.State == nil || c.Config == nil || c.HostConfig == nil {
		return nil, spec.New(spec.CodeInternal, "inspect container: the engine's answer has no state or no configuration")
	}
	// An id is matched by any prefix of it, also by a name that looks like one.
	if c.ID != id && c.Name != "/"+id {
		return nil, spec.New(spec.CodeNotFound, "inspect container: the engine answered with another one")
	}
	c.State.Status = e.state(c.State.Status)
	return &c, nil
}

// List returns the containers that carry all of the labels and are in one of the states;
// without states, in any.
func (e *Engine) List(ctx context.Context, auth driver.Authority, labels map[string]string, states ...container.ContainerState) ([]container.Summary, error) {
	filters := make(client.Filters)
	for k, v := range labels {
		filters.Add("label", k+"="+v)
	}
	items, err := e.list(ctx, auth, filters)
	if len(states) > 0 { // an engine refuses to look for a state that it does not know
		items = slices.DeleteFunc(items, func(c container.Summary) bool { return !slices.Contains(states, c.State) })
	}
	return items, err
}

func (e *Engine) list(ctx context.Context, auth driver.Authority, filters client.Filters) ([]container.Summary, error) {
	var items []container.Summary
	err := e.Do(ctx, Call{Authority: auth, What: "list containers", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		items = res.Items
		return err
	})
	for i := range items {
		items[i].State = e.state(items[i].State)
	}
	return items, err
}

// Create returns the new container's id. A name that is taken is ErrTaken, an image
// that is not there ErrNoImage.
func (e *Engine) Create(ctx context.Context, auth driver.Authority, o client.ContainerCreateOptions) (string, error) {
	if e.Libpod {
		host, done, err := fileProfile(o.HostConfig)
		if err != nil {
			return "", &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("file for the seccomp profile: %w", err)}
		}
		defer done()
		o.HostConfig = host
	}
	var id string
	err := e.Do(ctx, Call{Authority: auth, What: "create container", Changes: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerCreate(ctx, o)
		id = res.ID
		return err
	})
	switch {
	case cerrdefs.IsConflict(err), e.Taken != nil && e.Taken(err):
		return "", ErrTaken
	case cerrdefs.IsNotFound(err) && e.lacks(ctx, auth, o.Config.Image):
		return "", &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("image %s %w", o.Config.Image, ErrNoImage), Hint: e.Name + " pull " + o.Config.Image}
	}
	return id, err
}

// ErrNoImage is Create's answer, CodeNotFound, where the container's image is not there.
var ErrNoImage = errors.New("is not on the engine")

// lacks reports whether the engine says that it has no image of this name or id.
func (e *Engine) lacks(ctx context.Context, auth driver.Authority, image string) bool {
	return cerrdefs.IsNotFound(e.Do(ctx, Call{Authority: auth, What: "inspect image", Reads: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ImageInspect(ctx, image)
		return err
	}))
}

// ErrTaken is create's answer where a container of that name exists.
var ErrTaken = errors.New("the container's name is taken")

// Start starts a container; one that runs is no error, also where the engine makes one of it
// because somebody else has just started it.
func (e *Engine) Start(ctx context.Context, auth driver.Authority, id string) error {
	err := e.Do(ctx, Call{Authority: auth, What: "start container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
	if spec.CodeOf(err) == spec.CodeUnavailable {
		if now, stateErr := e.State(ctx, auth, id); stateErr == nil && now == container.StateRunning {
			return nil
		}
	}
	return err
}

// Stop kills a container and keeps it; one that does not run, or is no more, is no
// error.
func (e *Engine) Stop(ctx context.Context, auth driver.Authority, id string) error {
	now := 0
	err := e.Do(ctx, Call{Authority: auth, What: "stop container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &now})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Remove kills and removes a container with its anonymous volumes and returns when
// it is gone. One that is gone already is no error.
func (e *Engine) Remove(ctx context.Context, auth driver.Authority, id string) error {
	return e.removeWith(ctx, auth, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

// RemoveHelper removes a helper and leaves the volumes, which are a place's.
func (e *Engine) RemoveHelper(ctx context.Context, auth driver.Authority, id string) error {
	return e.removeWith(ctx, auth, id, client.ContainerRemoveOptions{Force: true})
}

// Discard removes a container that does not run, with its anonymous volumes. One that
// runs after all is left alone, and is no error; nor is one that is gone.
func (e *Engine) Discard(ctx context.Context, auth driver.Authority, id string) error {
	err := e.removeOnce(ctx, auth, id, client.ContainerRemoveOptions{RemoveVolumes: true})
	if cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) {
		return nil
	}
	return err
}

// removeWith asks again while somebody else's removal is under way: the engine then
// answers with a conflict and may still call the container running, so that asking
// is the only way to tell. So it does where the engine has given up waiting for the end of
// what it killed, which is an internal error: a thousand processes may take longer.
func (e *Engine) removeWith(ctx context.Context, auth driver.Authority, id string, o client.ContainerRemoveOptions) error {
	deadline := time.Now().Add(goneLimit)
	for givenUp := 0; ; {
		err := e.removeOnce(ctx, auth, id, o)
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case cerrdefs.IsInternal(err) && givenUp < mostGivenUp:
			givenUp++
		case !cerrdefs.IsConflict(err) || time.Now().After(deadline):
			return err
		}
		if err := Pause(ctx, PollEvery); err != nil {
			return err
		}
	}
}

func (e *Engine) removeOnce(ctx context.Context, auth driver.Authority, id string, o client.ContainerRemoveOptions) error {
	return e.Do(ctx, Call{Authority: auth, What: "remove container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerRemove(ctx, id, o)
		return err
	})
}

// WaitGone waits for the end of a removal that is under way.
func (e *Engine) WaitGone(ctx context.Context, auth driver.Authority, c *container.InspectResponse) error {
	deadline := time.Now().Add(goneLimit)
	for {
		now, err := e.Inspect(ctx, auth, c.ID)
		switch {
		case spec.CodeOf(err) == spec.CodeNotFound:
			return nil
		case err != nil:
			return err
		case now.State.Status != container.StateRemoving || time.Now().After(deadline):
			return spec.New(spec.CodeUnavailable, "container "+strings.TrimPrefix(c.Name, "/")+" cannot be removed")
		}
		if err := Pause(ctx, PollEvery); err != nil {
			return err
		}
	}
}

// Stat describes a path inside a container that need not run. CodeFileNotFound:
// it is not there.
func (e *Engine) Stat(ctx context.Context, auth driver.Authority, id, path string) (container.PathStat, error) {
	var st container.PathStat
	err := e.Do(ctx, Call{Authority: auth, What: "look into container", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
		st = res.Stat
		return err
	})
	return st, fileMissing(err)
}

// Put unpacks an archive at dir inside a container. Only ever used on containers
// that do not run.
func (e *Engine) Put(ctx context.Context, auth driver.Authority, id, dir string, archive []byte) error {
	return e.Do(ctx, Call{Authority: auth, What: "copy into container", Max: ProcessLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: bytes.NewReader(archive)})
		return err
	})
}

// maxSmallFile bounds what get holds.
const maxSmallFile = 1 << 20

// Get reads a small regular file of a container that need not run. CodeFileNotFound:
// there is none, or it is something else. The content is the image's: hostile.
func (e *Engine) Get(ctx context.Context, auth driver.Authority, id, path string) ([]byte, error) {
	for try := 1; ; try++ {
		data, err := e.get(ctx, auth, id, path)
		// Podman sends nothing of a container after which it is just tidying up.
		if !errors.Is(err, io.EOF) || try == settleTries {
			return data, err
		}
		if err := Pause(ctx, PollEvery); err != nil {
			return nil, err
		}
	}
}

func (e *Engine) get(ctx context.Context, auth driver.Authority, id, path string) ([]byte, error) {
	var data []byte
	err := e.Do(ctx, Call{Authority: auth, What: "copy out of container", Reads: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: path})
		if err != nil {
			return err
		}
		defer res.Content.Close()
		archive := tar.NewReader(io.LimitReader(res.Content, maxSmallFile))
		h, err := archive.Next()
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			return spec.New(spec.CodeFileNotFound, path+" is not a regular file")
		}
		data, err = io.ReadAll(archive)
		return err
	})
	return data, fileMissing(err)
}

// fileMissing turns the 404 of an archive request into a missing file: the
// container is there, its caller has just inspected it.
func fileMissing(err error) error {
	if cerrdefs.IsNotFound(err) {
		return &spec.Error{Code: spec.CodeFileNotFound, Err: err}
	}
	return err
}

// VolumeCreate creates a volume; one of this name that exists is no error, and keeps its
// labels.
func (e *Engine) VolumeCreate(ctx context.Context, auth driver.Authority, name string, labels map[string]string) error {
	return e.Do(ctx, Call{Authority: auth, What: "create volume", Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels})
		return err
	})
}

// VolumeExists reports whether there is a volume of this name.
func (e *Engine) VolumeExists(ctx context.Context, auth driver.Authority, name string) (bool, error) {
	err := e.Do(ctx, Call{Authority: auth, What: "inspect volume", Reads: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Network reports whether the engine has a network of this name. It makes none.
func (e *Engine) Network(ctx context.Context, auth driver.Authority, name string) (bool, error) {
	err := e.Do(ctx, Call{Authority: auth, What: "inspect network", Reads: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Pause waits for d or the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-t.C:
		return nil
	}
}
