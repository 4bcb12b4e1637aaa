package berth

import (
	"context"

	"github.com/berth-dev/berth/files"
)

// Watch tells of changes below a directory of the place, or to one file, until ctx ends,
// tell returns an error, which Watch then returns, or what is watched is gone; see
// files.Watcher. It goes on over a lost connection, with a files.WatchOverflow. ready,
// which may be nil, is called once it watches.
func (f *Files) Watch(ctx context.Context, name string, o files.WatchOptions, ready func(), tell func(files.WatchEvent) error) error {
	fsys, err := f.fs(ctx)
	if err != nil {
		return f.sb.wrap(err, "watch", name)
	}
	var own error
	err = files.Watch(ctx, fsys, name, o, ready, func(e files.WatchEvent) error {
		own = tell(e)
		return own
	})
	if own != nil {
		return own
	}
	return f.sb.wrap(err, "watch", name)
}
