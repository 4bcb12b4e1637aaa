package isolate

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// inModule are the parts of the directory of a submodule by which a program can be made to
// run outside. Its commondir, which git does not make, leads to another configuration and
// to other hooks.
var inModule = []string{"config", "config.worktree", "commondir", "hooks"}

const (
	// maxModules is how many submodules of one directory are protected one by one.
	maxModules = 32
	// maxModuleDirs bounds how many directories are looked into for them, and
	// maxModuleDepth how deep they may lie.
	maxModuleDirs  = 512
	maxModuleDepth = 16
)

// inRepository are the directories of a repository in which none is kept.
var inRepository = []string{"branches", "hooks", "info", "lfs", "logs", "objects", "refs"}

// modules returns the directories that git keeps for the submodules in dir, which is a
// modules directory of a repository, and for those in them and their work trees. A
// submodule lies there under its path, at any depth. complete is false where there are more
// than are protected one by one, or where a link leads elsewhere: then all of dir is to be
// protected.
func modules(dir string) (found []string, complete bool) {
	looked := 0
	var look func(dir string, within bool, depth int) bool
	look = func(dir string, within bool, depth int) bool {
		if looked++; looked > maxModuleDirs || depth > maxModuleDepth {
			return false
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return isMissing(err)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			module := entry.IsDir() && isModule(path)
			switch {
			case module:
				if found = append(found, path); len(found) > maxModules {
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
	if isLink(dir) {
		return nil, false
	}
	complete = look(dir, false, 0)
	return found, complete
}

// isModule reports whether dir is a repository, or was one before a command took a part of
// it away: no command can do so with its configuration.
func isModule(dir string) bool {
	return exists(filepath.Join(dir, "HEAD")) || isFile(filepath.Join(dir, "config")) || isFile(filepath.Join(dir, "commondir"))
}

// obeyModules adds what programs outside obey of the submodules in a modules directory of
// root, by its name in it.
func (l *layout) obeyModules(root, name string) {
	found, complete := modules(filepath.Join(root, name))
	if !complete {
		l.obeyOne(root, name)
		return
	}
	for _, dir := range found {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			continue
		}
		for _, part := range inModule {
			l.obeyOne(root, filepath.Join(rel, part))
		}
	}
}

// protectedModules lists the same of a repository whose files are protected by name.
func protectedModules(dir string) []string {
	found, complete := modules(dir)
	if !complete {
		return []string{dir}
	}
	var out []string
	for _, module := range found {
		for _, part := range inModule {
			out = append(out, filepath.Join(module, part))
		}
	}
	return out
}
