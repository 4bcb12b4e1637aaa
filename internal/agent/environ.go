//go:build linux

package agent

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/spec"
)

// tagName is the environment variable by which a process of a command is found
// again when it has left its session and its parents.
const tagName = "BERTH_COMMAND"

// prepare resolves the program and the directory of a valid command. The caller
// closes the launch's Dir. tag is the entry that marks the command's processes, ""
// under a clean environment.
func (a *agent) prepare(c *spec.Command) (l *proc.Launch, tag string, err error) {
	dir, err := proc.OpenDir(a.cfg.workdir, c.Dir)
	if err != nil {
		return nil, "", err
	}
	if !c.CleanEnv {
		tag = tagName + "=" + randomWord()
	}
	l = &proc.Launch{Args: c.Args, Dir: dir, Env: commandEnv(a.env, c, dir.Real, tag)}
	l.Path, err = proc.LookProgram(c.Args[0], proc.SearchPath(l.Env, a.env), dir.FD)
	if err != nil {
		dir.Close()
		return nil, "", err
	}
	return l, tag, nil
}

// placeEnv is the environment of the place: the last of equal names, without
// what makes a shell run a file before its script.
func placeEnv(environ []string) []string {
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

// commandEnv is the environment of c, with tag behind it where there is one. A PWD
// that the place inherited is made true: it names where the command starts.
func commandEnv(place []string, c *spec.Command, dir, tag string) []string {
	out := make([]string, 0, len(place)+len(c.Env)+1)
	if !c.CleanEnv {
		for _, entry := range place {
			name, _, _ := strings.Cut(entry, "=")
			if _, replaced := c.Env[name]; replaced || name == tagName {
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

// randomWord returns 16 hex digits that nobody can guess.
func randomWord() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
