package made

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxPlaces bounds how many places are remembered, and maxBytes what is kept of one;
	// maxTold how many names are told at a time, and maxName how much of each.
	maxPlaces = 256
	maxBytes  = 256 << 10
	maxTold   = 16
	maxName   = 200
)

// Bounded are the first paths that can be kept of one place.
func Bounded(paths []string) []string {
	size := 0
	for i, path := range paths {
		if size += len(path) + 1; size > maxBytes {
			return paths[:i]
		}
	}
	return paths
}

// Keep remembers in dir, which it makes, those of the paths that exist, but not what lies in
// the directory of the place id itself. Where they cannot be kept, they are not: nothing
// else depends on it.
func Keep(dir, id, place string, paths []string) {
	var there []string
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil && !within(path, place) {
			there = append(there, path)
		}
	}
	if len(there) == 0 || os.MkdirAll(dir, 0o700) != nil {
		return
	}
	if names, err := os.ReadDir(dir); err == nil && len(names) < maxPlaces {
		_ = os.WriteFile(filepath.Join(dir, id), []byte(strings.Join(there, "\x00")), 0o600)
	}
}

// Tell returns the text that names what is kept in dir, lies in one of the roots and still
// exists, or "", and how that is forgotten once it has been told.
func Tell(dir string, roots []string) (text string, told func()) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return "", func() {}
	}
	for i, root := range roots {
		if resolved, err := filepath.EvalSymlinks(root); err == nil {
			roots[i] = resolved
		}
	}
	var here []string
	rest := map[string][]string{} // by file, what is not told
	for _, name := range names[:min(len(names), maxPlaces)] {
		file := filepath.Join(dir, name.Name())
		info, err := name.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		rest[file] = nil
		for path := range strings.SplitSeq(string(data), "\x00") {
			switch _, err := os.Lstat(path); {
			case err != nil:
			case slices.ContainsFunc(roots, func(root string) bool { return within(path, root) }):
				here = append(here, path)
			default:
				rest[file] = append(rest[file], path)
			}
		}
	}
	return list(here), func() {
		for file, paths := range rest {
			if len(paths) == 0 {
				os.Remove(file)
			} else {
				_ = os.WriteFile(file, []byte(strings.Join(paths, "\x00")), 0o600)
			}
		}
		os.Remove(dir) // if nothing is left
	}
}

// list is paths as a person reads them, a long one by its end.
func list(paths []string) string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	var names []string
	for _, path := range paths[:min(len(paths), maxTold)] {
		if len(path) > maxName {
			path = "..." + path[len(path)-maxName:]
		}
		names = append(names, strings.ToValidUTF8(path, "?"))
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - maxTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// within reports whether path is dir or lies in it; both are clean.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
