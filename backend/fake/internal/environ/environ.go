// Package environ makes the environments of the fake's places, and reads them.
package environ

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// DefaultPath is the PATH of a place that is given none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Place is the environment of a place: defaults, the driver's and the spec's,
// without what makes a shell run a file before its script.
func Place(base []string, own map[string]string) []string {
	env := map[string]string{"PATH": DefaultPath, "HOME": "/root", "USER": "root", "LANG": "C.UTF-8"}
	maps.Copy(env, Map(base))
	maps.Copy(env, own)
	delete(env, "BASH_ENV")
	delete(env, "ENV")
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

// Command is the environment of a command that runs in dir: the place's, but for the names
// in unset, under its own.
func Command(place []string, c *spec.Command, unset []string, dir string) []string {
	var out []string
	for _, e := range place {
		name, _, _ := strings.Cut(e, "=")
		if _, replaced := c.Env[name]; replaced || c.CleanEnv || slices.Contains(unset, name) {
			continue
		}
		if name == "PWD" {
			e = "PWD=" + dir
		}
		out = append(out, e)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		out = append(out, name+"="+c.Env[name])
	}
	return out
}

// Map is an environment by its names.
func Map(entries []string) map[string]string {
	out := make(map[string]string, len(entries))
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		out[name] = value
	}
	return out
}

// Path is the PATH of an environment.
func Path(env []string) string {
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			return path
		}
	}
	return DefaultPath
}
