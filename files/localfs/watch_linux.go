package localfs

import (
	"context"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs/internal/watch"
)

// Watch implements files.Watcher by inotify. Temporary files of a Write are not told; what
// takes their name is told as created. The content of a file that is changed through
// another name of it, a hard link elsewhere, is not told.
func (f *FS) Watch(ctx context.Context, name string, o files.WatchOptions, ready func(), tell func(files.WatchEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return fail(name, reading, err)
	}
	where, err := f.Resolve(ctx, name)
	if err != nil {
		return err
	}
	t, err := f.resolve(where, reading, makeNothing)
	if err != nil {
		return err
	}
	defer t.close()
	w := watch.Options{Recursive: o.Recursive, Hidden: isTemp}
	if len(o.Exclude) > 0 || o.Gitignore {
		filter, all, err := files.NewFilter(ctx, f, where, o.Exclude, o.Gitignore)
		if err == nil {
			err = filter.Load("")
		}
		if err != nil {
			return fail(name, reading, err)
		}
		w.Filter = &filter
		if all {
			w.Hidden = func(string) bool { return true }
		}
	}
	told := error(nil)
	err = watch.Run(ctx, watch.Place{Dir: t.dir, Base: t.base}, w, ready, func(e files.WatchEvent) error {
		told = tell(e)
		return told
	})
	if err == nil || told != nil || ctx.Err() != nil {
		return err
	}
	return fail(name, reading, err)
}

// isTemp reports whether a name is that of a temporary file of a Write.
func isTemp(name string) bool {
	random, ok := strings.CutPrefix(name, tempPrefix)
	random, _, _ = strings.Cut(random, "-") // in a batch a number follows
	return ok && len(random) == 2*tempBytes && strings.Trim(random, "0123456789abcdef") == ""
}

var _ files.Watcher = (*FS)(nil)
