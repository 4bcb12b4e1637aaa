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
	l = &proc.Launch{Args: c.Args, Setup: proc.Setup{Rlimits: c.Rlimits}, Self: append(slices.Clip(a.cfg.self), "launch")}
	if c.Umask != nil {
		mask := uint32(*c.Umask)
		l.Setup.Umask = &mask
	}
	if err := l.Setup.Check(); err != nil {
		return nil, "", err
	}
	if !c.CleanEnv {
		tag = tagName + "=" + randomWord()
	}
	locate := func() (err error) {
		if l.Dir, err = proc.OpenDir(a.cfg.workdir, c.Dir); err != nil {
			return err
		}
		l.Env = commandEnv(a.env, c, l.Dir.Real, tag)
		l.Path, err = proc.LookProgram(c.Args[0], proc.SearchPath(l.Env, a.env), l.Dir.FD)
		if err != nil {
			l.Dir.Close()
		}
		return err
	}
	switch {
	case c.User == "":
		err = locate()
	case !a.changesUser:
		err = spec.New(spec.CodeUnsupported, "this place runs every command as its own user")
	default:
		// What the command's user cannot reach is said here: an exec that fails
		// does not tell the directory from the program.
		if l.User, err = proc.LookupUser(c.User); err == nil {
			err = l.User.As(locate)
		}
	}
	return l, tag, err
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
