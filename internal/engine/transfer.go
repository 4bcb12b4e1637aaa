package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/moby/moby/client"
)

// TransferLimit bounds a request that moves the files of a place.
const TransferLimit = time.Hour

// Open reads what is in a directory of a container, which need not run, as an archive and
// hands it to read, for whose time it is open. What
// comes is the container's: hostile. CodeFileNotFound: it is not there. An error of
// read is returned as it is.
func (e *Engine) Open(ctx context.Context, auth driver.Authority, id, dir string, read func(ctx context.Context, archive io.Reader) error) error {
	var readErr error
	err := e.Do(ctx, Call{Authority: auth, What: "copy out of container", Max: TransferLimit}, func(ctx context.Context, api *client.Client) error {
		res, err := api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: dir + "/."})
		if err != nil {
			return err
		}
		defer res.Content.Close()
		readErr = read(ctx, res.Content)
		return readErr
	})
	if readErr != nil && ctx.Err() == nil && !errors.Is(readErr, context.DeadlineExceeded) {
		return readErr
	}
	return fileMissing(err)
}

// Fill unpacks an archive, as it comes, at dir inside a container that does not run. What
// has another type than what is there takes its place.
func (e *Engine) Fill(ctx context.Context, auth driver.Authority, id, dir string, archive io.Reader) error {
	return e.Do(ctx, Call{Authority: auth, What: "copy into container", Max: TransferLimit, Changes: true}, func(ctx context.Context, api *client.Client) error {
		_, err := api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: dir, Content: archive, AllowOverwriteDirWithFile: true})
		return err
	})
}
