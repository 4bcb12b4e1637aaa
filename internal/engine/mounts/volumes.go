package mounts

import (
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
)

// Volumes are mounts of new volumes that have labels and no name. An engine copies to them what
// the image has there, and removes them with their container if it is told to.
func Volumes(targets []string, labels map[string]string) []mount.Mount {
	var out []mount.Mount
	for _, target := range targets {
		out = append(out, mount.Mount{Type: mount.TypeVolume, Target: target, VolumeOptions: &mount.VolumeOptions{Labels: labels}})
	}
	return out
}

// Declared are such mounts of the volumes that an image declares, which an engine would make
// without labels. Where a container has something else mounted there is none; one that it has
// in memory the engine makes all the same, as it does not look there.
func Declared(targets []string, labels map[string]string, h *container.HostConfig) []mount.Mount {
	taken := []string{"/"}
	for _, m := range h.Mounts {
		taken = append(taken, path.Clean(m.Target))
	}
	for _, bind := range h.Binds {
		if parts := strings.Split(bind, ":"); len(parts) > 1 {
			taken = append(taken, path.Clean(parts[1]))
		}
	}
	for target := range h.Tmpfs {
		taken = append(taken, path.Clean(target))
	}
	var free []string
	for _, target := range targets {
		target = path.Clean(target)
		if path.IsAbs(target) && !slices.Contains(taken, target) {
			taken, free = append(taken, target), append(free, target)
		}
	}
	slices.Sort(free)
	return Volumes(free, labels)
}
