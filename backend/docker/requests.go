package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
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
	pollEvery   = 50 * time.Millisecond
)

// inspect describes the container with exactly this name or id.
func (e *engine) inspect(ctx context.Context, auth driver.Authority, id string) (*container.InspectResponse, error) {
	var c container.InspectResponse
	err := e.do(ctx, call{auth: auth, what: "inspect container"}, func(ctx context.Context, api *client.Client) error {
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
	return &c, nil
}

// list returns the containers, running or not, that carry all of the labels.
func (e *engine) list(ctx context.Context, auth driver.Authority, labels map[string]string, states ...string) ([]container.Summary, error) {
	filters := make(client.Filters)
	for k, v := range labels {
		filters.Add("label", k+"="+v)
	}
	if len(states) > 0 {
		filters.Add("status", states...)
	}
	var items []container.Summary
	err := e.do(ctx, call{auth: auth, what: "list containers"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		items = res.Items
		return err
	})
	return items, err
}

// create returns the new container's id. A name that is taken is errTaken, an image
// that is not there CodeNotFound.
func (e *engine) create(ctx context.Context, auth driver.Authority, o client.ContainerCreateOptions) (string, error) {
	var id string
	err := e.do(ctx, call{auth: auth, what: "create container", changes: true}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerCreate(ctx, o)
		id = res.ID
		return err
	})
	switch {
	case cerrdefs.IsConflict(err):
		return "", errTaken
	case cerrdefs.IsNotFound(err):
		return "", &spec.Error{Code: spec.CodeNotFound, Err: errors.New("image " + o.Config.Image + " is not on the engine"), Hint: "docker pull " + o.Config.Image}
	}
	return id, err
}

// errTaken is create's answer where a container of that name exists.
var errTaken = errors.New("the container's name is taken")

// start starts a container; one that runs is no error.
func (e *engine) start(ctx context.Context, auth driver.Authority, id string) error {
	return e.do(ctx, call{auth: auth, what: "start container", max: processLimit, changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
}

// stop kills a container and keeps it; one that does not run, or is no more, is no
// error.
func (e *engine) stop(ctx context.Context, auth driver.Authority, id string) error {
	now := 0
	err := e.do(ctx, call{auth: auth, what: "stop container", max: processLimit, changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &now})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// remove kills and removes a container with its anonymous volumes and returns when
// it is gone. One that is gone already is no error.
func (e *engine) remove(ctx context.Context, auth driver.Authority, id string) error {
	return e.removeWith(ctx, auth, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
}

// removeHelper removes a helper and leaves the volumes, which are a place's.
func (e *engine) removeHelper(ctx context.Context, auth driver.Authority, id string) error {
	return e.removeWith(ctx, auth, id, client.ContainerRemoveOptions{Force: true})
}

// removeWith asks again while somebody else's removal is under way: the engine then
// answers with a conflict and may still call the container running, so that asking
// is the only way to tell. So it does where the engine has given up waiting for the end of
// what it killed, which is an internal error: a thousand processes may take longer.
func (e *engine) removeWith(ctx context.Context, auth driver.Authority, id string, o client.ContainerRemoveOptions) error {
	deadline := time.Now().Add(goneLimit)
	for givenUp := 0; ; {
		err := e.do(ctx, call{auth: auth, what: "remove container", max: processLimit, changes: true}, func(ctx context.Context, api *client.Client) error {
			_, err := api.ContainerRemove(ctx, id, o)
			return err
		})
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case cerrdefs.IsInternal(err) && givenUp < mostGivenUp:
			givenUp++
		case !cerrdefs.IsConflict(err) || time.Now().After(deadline):
			return err
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// waitGone waits for the end of a removal that is under way.
func (e *engine) waitGone(ctx context.Context, auth driver.Authority, c *container.InspectResponse) error {
	deadline := time.Now().Add(goneLimit)
	for {
		now, err := e.inspect(ctx, auth, c.ID)
		switch {
		case spec.CodeOf(err) == spec.CodeNotFound:
			return nil
		case err != nil:
			return err
		case now.State.Status != container.StateRemoving || time.Now().After(deadline):
			return spec.New(spec.CodeUnavailable, "container "+strings.TrimPrefix(c.Name, "/")+" cannot be removed")
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// stat describes a path inside a container that need not run. CodeFileNotFound:
// it is not there.
func (e *engine) stat(ctx context.Context, auth driver.Authority, id, path string) (container.PathStat, error) {
	var st container.PathStat
	err := e.do(ctx, call{auth: auth, what: "look into container"}, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
		st = res.Stat
		return err
	})
	return st, fileMissing(err)
}

// put unpacks an archive at dir inside a container. Only ever used on containers
// that do not run.
func (e *engine) put(ctx context.Context, auth driver.Authority, id, dir string, archive []byte) error {
	return e.do(ctx, call{auth: auth, what: "copy into container", max: processLimit, changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: bytes.NewReader(archive)})
		return err
	})
}

// maxSmallFile bounds what get holds.
const maxSmallFile = 1 << 20

// get reads a small regular file of a container that need not run. CodeFileNotFound:
// there is none, or it is something else. The content is the image's: hostile.
func (e *engine) get(ctx context.Context, auth driver.Authority, id, path string) ([]byte, error) {
	var data []byte
	err := e.do(ctx, call{auth: auth, what: "copy out of container"}, func(ctx context.Context, api *client.Client) error {
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

// volumeExists reports whether there is a volume of this name.
func (e *engine) volumeExists(ctx context.Context, auth driver.Authority, name string) (bool, error) {
	err := e.do(ctx, call{auth: auth, what: "inspect volume"}, func(ctx context.Context, api *client.Client) error {
		_, err := api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return err
	})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
