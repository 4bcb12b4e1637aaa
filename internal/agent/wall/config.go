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
	there   bool           // there is one
	drop    *drop.Identity // whom a guest that root has started becomes; nil: nobody else
	own     []string       // directories that are given to that user first
	absent  []string       // what does not exist, and is told of when it does
	indexes [][2]string    // of git, which commands may write, each with its work tree
	mounted []mounted      // what is to lie at the paths that were mounted

	environFD int // holds the environment of commands; -1: it is this program's own
	environ   []string
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
	f.Func("git-index", "INDEX:WORKTREE, an index of git, to be told of when it leads git astray; repeatable", c.addIndex())
	f.Func("mounted", "DEV:INO:PATH, what is to be mounted at a path; repeatable", c.addMounted)
	f.IntVar(&c.environFD, "environ-fd", -1, "descriptor of a file that holds the environment of commands")
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

// addIndex returns what takes one index after another.
func (c *Config) addIndex() func(string) error {
	given := 0
	return func(text string) error {
		pairs := splitIndex(text)
		if given++; len(pairs) == 0 || given > maxIndexes {
			return errors.New("not INDEX:WORKTREE, both absolute, or one too many")
		}
		c.indexes = append(c.indexes, pairs...)
		return nil
	}
}

// Drops reports whether the guest was started by root and does not stay it.
func (c *Config) Drops() bool { return c.drop != nil }

// Enter makes the guest the user that it is to be, as drop.Identity.Take does, and takes
// what it was handed for the place. It refuses a place whose wall is another one than was
// planned. It comes before inherited descriptors are closed.
func (c *Config) Enter() error {
	// While everything can be looked at: not when it has begun again as that user.
	if c.drop == nil || os.Getuid() == 0 {
		if err := c.checkMounted(); err != nil {
			return err
		}
	}
	if c.drop != nil {
		if err := c.drop.Take(c.own, os.Environ()); err != nil {
			return err
		}
	}
	return c.readEnviron()
}

// Wall is nil where there is none.
func (c *Config) Wall() *Wall {
	if !c.there && len(c.absent) == 0 && len(c.indexes) == 0 {
		return nil
	}
	w := &Wall{}
	w.made.add(c.absent)
	w.made.addIndexes(c.indexes)
	return w
}
