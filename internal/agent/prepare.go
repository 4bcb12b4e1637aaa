//go:build linux

package agent

import (
	"crypto/rand"
	"slices"

	"github.com/berth-dev/berth/internal/agent/proc"
	"github.com/berth-dev/berth/internal/environ"
	"github.com/berth-dev/berth/spec"
)

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
		tag = environ.Tag + "=" + rand.Text()
	}
	locate := func() (err error) {
		if l.Dir, err = proc.OpenDir(a.cfg.workdir, c.Dir); err != nil {
			return err
		}
		l.Env = environ.Command(a.env, c.WithEnvPaths(a.env), l.Dir.Real, tag)
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
