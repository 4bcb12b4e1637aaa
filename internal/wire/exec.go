package wire

import (
	"io/fs"
	"time"

	"github.com/berth-dev/berth/spec"
)

// maxIDBytes bounds the id of a command.
const maxIDBytes = 256

// Command converts and checks what a host asked for: a guest trusts no limit that it has
// not applied itself.
func (r *ExecRequest) Command() (*spec.Command, error) {
	c := &spec.Command{
		Key: r.Key, Dir: string(r.Dir), CleanEnv: r.CleanEnv, MergeOutput: r.Merge, Env: make(map[string]string, len(r.Env)),
		User: r.User, Rlimits: r.Rlimits,
	}
	for _, arg := range r.Args {
		c.Args = append(c.Args, string(arg))
	}
	for name, value := range r.Env {
		c.Env[name] = string(value)
	}
	if len(r.EnvPaths) > 0 {
		c.EnvPaths = make(map[string][]string, len(r.EnvPaths))
	}
	for name, dirs := range r.EnvPaths {
		for _, dir := range dirs {
			c.EnvPaths[name] = append(c.EnvPaths[name], string(dir))
		}
	}
	most := spec.MaxTimeout.Milliseconds()
	if r.ID == "" || len(r.ID) > maxIDBytes || min(r.TimeoutMS, r.GraceMS, r.NoOutputMS) < 0 || max(r.TimeoutMS, r.GraceMS, r.NoOutputMS) > most {
		return nil, spec.New(spec.CodeInvalid, "the request is out of range")
	}
	c.Timeout = time.Duration(r.TimeoutMS) * time.Millisecond
	c.NoOutputTimeout = time.Duration(r.NoOutputMS) * time.Millisecond
	if r.Umask != nil {
		mask := fs.FileMode(*r.Umask)
		c.Umask = &mask
	}
	return c, c.Validate()
}
