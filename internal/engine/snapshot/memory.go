package snapshot

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/mount"
)

// CheckMemory refuses a place that runs and has files in memory, which no image can have.
// Those of its guest do not count. fsys are its files, nil where it does not answer.
func (s *Source) CheckMemory(ctx context.Context, fsys files.FS) error {
	for _, dir := range s.memory() {
		if fsys == nil {
			return &spec.Error{Code: spec.CodeUnsupported, Path: dir, Err: errors.New("it is in memory, and the place does not say whether anything is in it")}
		}
		if err := checkEmpty(ctx, fsys, dir, s.unasked(dir)); err != nil {
			return err
		}
	}
	return nil
}

// memory are the directories of a container that are in memory, but for its guest's state.
func (s *Source) memory() []string {
	dirs := slices.Collect(maps.Keys(s.Container.HostConfig.Tmpfs))
	for _, m := range s.Container.HostConfig.Mounts {
		if m.Type == mount.TypeTmpfs {
			dirs = append(dirs, m.Target)
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return dir == s.State })
}

// unasked reports whether a directory is in memory without anybody having asked for it, as
// Podman has some where the root is read-only.
func (s *Source) unasked(dir string) bool {
	return s.Container.HostConfig.ReadonlyRootfs && (dir == "/run" || dir == "/var/tmp")
}

// checkEmpty refuses a directory in which something is. One that nobody has asked for has
// directories of the image, and a file of the engine's.
func checkEmpty(ctx context.Context, fsys files.FS, dir string, unasked bool) error {
	for info, err := range files.Names(ctx, fsys, dir, files.NamesOptions{}) {
		name := path.Join(dir, info.Name)
		switch {
		case unasked && spec.CodeOf(err) == spec.CodePermission:
			return nil // what is closed to its user is the image's
		case unasked && err == nil && info.IsDir():
			err = checkEmpty(ctx, fsys, name, unasked)
		case err == nil && (!unasked || name != "/run/.containerenv"):
			err = &spec.Error{Code: spec.CodeUnsupported, Path: dir, Err: errors.New("what is in it is in memory, which no snapshot keeps"), Hint: "empty it, or move what is needed"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
