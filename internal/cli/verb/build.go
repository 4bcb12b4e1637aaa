package verb

import (
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/config"
)

// BuildFlags are the flags that say how an image is built.
type BuildFlags struct {
	dockerfile string
	args       []string
}

// Add adds the flags to a verb.
func (f *BuildFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.dockerfile, "dockerfile", "", "`FILE` to build the image by (default: Dockerfile in the directory)")
	flags.StringArrayVar(&f.args, "build-arg", nil, "`NAME=VALUE` of an ARG of the Dockerfile, or NAME to take the value from ours; repeatable")
}

// Given reports whether a command line has any of them.
func (f *BuildFlags) Given() bool { return f.dockerfile != "" || len(f.args) > 0 }

// Build returns the build of a directory; relative paths begin in dir.
func (f *BuildFlags) Build(c *config.Config, dir, context string) (*berth.Build, error) {
	under := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	b := &berth.Build{Context: filepath.Clean(under(context)), Dockerfile: under(f.dockerfile), Args: map[string]string{}}
	for _, entry := range f.args {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			var ok bool
			if value, ok = c.Lookup(name); !ok {
				return nil, Usage("--build-arg %s: there is no such variable here to take the value from", name)
			}
		}
		b.Args[name] = value
	}
	return b, nil
}
