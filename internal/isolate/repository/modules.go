package repository

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

const (
	// MaxModules is how many submodules of one directory are told one by one.
	MaxModules = 32
	// MaxDepth is how deep they may lie.
	MaxDepth = 16
	// maxModuleDirs bounds how many directories are looked into for them.
	maxModuleDirs = 512
)

// inRepository are the directories of a repository in which none is kept.
var inRepository = []string{"branches", "hooks", "info", "lfs", "logs", "objects", "refs"}

// inModule are the parts of the directory of a submodule by which a program can be made to
// run outside. Its commondir, which git does not make, leads to another configuration and
// to other hooks.
var inModule = []string{"config", "config.worktree", "commondir", "hooks"}

// ModuleParts returns those parts of all submodules in dir, which is a modules directory of a
// repository, and of those in them and their work trees, whether they exist or not. Where
// there are more than are told one by one, or where a link leads elsewhere, it is all of dir.
func ModuleParts(dir string) (out []string) {
	found, complete := modules(dir)
	if !complete {
		return []string{dir}
	}
	for _, module := range found {
		for _, part := range inModule {
			out = append(out, filepath.Join(module, part))
		}
	}
	return out
}

// modules returns the directories of the submodules in dir. A submodule lies there under its
// path, at any depth. complete is false where these are not all.
func modules(dir string) (found []string, complete bool) {
	looked := 0
	var look func(dir string, within bool, depth int) bool
	look = func(dir string, within bool, depth int) bool {
		if looked++; looked > maxModuleDirs || depth > MaxDepth {
			return false
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			module := entry.IsDir() && isModule(path)
			switch {
			case module:
				if found = append(found, path); len(found) > MaxModules {
					return false
				}
			case within && slices.Contains(inRepository, entry.Name()):
				continue
			case !within && entry.Type()&fs.ModeSymlink != 0:
				return false
			}
			// Into a submodule too: a command may have made it look like one.
			if entry.IsDir() && !look(path, module, depth+1) {
				return false
			}
		}
		return true
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, false
	}
	complete = look(dir, false, 0)
	return found, complete
}

// isModule reports whether dir is a repository, or was one before a command took a part of
// it away: no command can do so with its configuration.
func isModule(dir string) bool {
	return exists(dir, "HEAD", fs.ModeIrregular) || exists(dir, "config", 0) || exists(dir, "commondir", 0)
}
