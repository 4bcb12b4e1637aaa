//go:build linux

package wall

import (
	"errors"
	"flag"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/internal/agent/drop"
)

// Config is what the arguments of serve say of the wall round the place.
type Config struct {
	there  bool           // there is one
	drop   *drop.Identity // whom a guest that root has started becomes; nil: nobody else
	own    []string       // directories that are given to that user first
	absent []string       // what does not exist, and is told of when it does
}

// maxPaths bounds a list of paths: all of one are looked for after each command.
const maxPaths = 1024

// Flags are the flags of serve that f parses into c.
func (c *Config) Flags(f *flag.FlagSet) {
	f.BoolVar(&c.there, "walled", false, "commands cannot write everywhere that their user can")
	f.Func("drop", "UID:GID to become, for good", func(text string) (err error) {
		c.drop, err = drop.Parse(text)
		return err
	})
	f.Func("own", "directory to be given to the user of --drop; repeatable", appender(&c.own))
	f.Func("absent", "path that does not exist, to be told of when it does; repeatable", appender(&c.absent))
}

func appender(paths *[]string) func(string) error {
	return func(path string) error {
		if !filepath.IsAbs(path) || len(*paths) == maxPaths {
			return errors.New("not an absolute path, or one too many")
		}
		*paths = append(*paths, filepath.Clean(path))
		return nil
	}
}

// Drops reports whether the guest was started by root and does not stay it.
func (c *Config) Drops() bool { return c.drop != nil }

// DropRoot makes the guest the user that it is to be; see drop.Identity.Take.
func (c *Config) DropRoot() error {
	if c.drop == nil {
		return nil
	}
	return c.drop.Take(c.own, os.Environ())
}

// Wall is nil where there is none.
func (c *Config) Wall() *Wall {
	if !c.there && len(c.absent) == 0 {
		return nil
	}
	w := &Wall{}
	w.absent.add(c.absent)
	return w
}
