// Package environ makes environments: what a guest gets of its host's, that of a place, and
// that of a command in it.
package environ

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Tag is the environment variable by which a process of a command is found
// again when it has left its session and its parents.
const Tag = "BERTH_COMMAND"

// Base picks from an environment what a guest gets of it: what says who and where
// the user is, and nothing that could hold a secret or change what a program does.
func Base(environ []string) []string {
	var out []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if !ok {
			continue
		}
		switch name {
		case "PATH", "HOME", "SHELL", "LANG", "USER", "LOGNAME", "TERM", "TMPDIR", "TZ":
			out = append(out, entry)
		default:
			if strings.HasPrefix(name, "LC_") {
				out = append(out, entry)
			}
		}
	}
	return out
}

// Place is the environment of the place: the last of equal names, without
// what makes a shell run a file before its script.
func Place(environ []string) []string {
	at := make(map[string]int, len(environ))
	var out []string
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || name == "BASH_ENV" || name == "ENV" {
			continue
		}
		if i, seen := at[name]; seen {
			out[i] = entry
			continue
		}
		at[name] = len(out)
		out = append(out, entry)
	}
	return out
}

// Command is the environment of c, with tag behind it where there is one. A PWD
// that the place inherited is made true: it names where the command starts.
func Command(place []string, c *spec.Command, dir, tag string) []string {
	out := make([]string, 0, len(place)+len(c.Env)+1)
	if !c.CleanEnv {
		for _, entry := range place {
			name, _, _ := strings.Cut(entry, "=")
			if _, replaced := c.Env[name]; replaced || name == Tag {
				continue
			}
			if name == "PWD" {
				entry = "PWD=" + dir
			}
			out = append(out, entry)
		}
	}
	added := len(out)
	for name, value := range c.Env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out[added:])
	if tag != "" {
		out = append(out, tag)
	}
	return out
}
