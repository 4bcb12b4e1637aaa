package isolate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// inTree are what programs outside run, or obey without being asked, of a directory in
// which somebody works: git and its hooks, editors, agents, and what sets the
// environment of a shell that enters it.
var inTree = []string{
	".githooks", ".husky", ".config/lefthook.yml", ".lefthook-local.yml", ".lefthook.yml", "lefthook-local.yml",
	"lefthook.json", "lefthook.toml", "lefthook.yaml", "lefthook.yml", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".hg/hgrc", ".jj/repo/config.toml",
	".devcontainer", ".helix", ".idea", ".vscode", ".windsurf", ".zed",
	".aider.conf.yml", ".claude", ".codex", ".crush.json", ".cursor", ".gemini", ".kiro", ".mcp.json", ".opencode", "crush.json", "opencode.json", "opencode.jsonc",
	".config/mise", ".config/mise.toml", ".envrc", ".mise", ".mise.local.toml", ".mise.toml", "mise.local.toml", "mise.toml",
}

// inGit are the parts of a directory of git's by which a program can be made to run outside.
var inGit = []string{"config", "config.worktree", "commondir", "hooks", "worktrees/*/commondir", "worktrees/*/config.worktree"}

// inHome are those of a home directory: what shells and sessions run when they start,
// and what says which program git, an editor or the login runs.
var inHome = []string{
	".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".profile",
	".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc", ".config/fish", ".kshrc",
	".config/autostart", ".config/environment.d", ".config/systemd", ".pam_environment", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc",
	".config/git", ".gitconfig", ".config/direnv", ".config/mise", ".exrc", ".vimrc", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".gdbinit",
	".claude", ".codex", ".gemini", ".ssh",
}

const (
	// maxMatches is how many names of one directory are protected one by one.
	maxMatches = 32
	// maxAbsent is how many names are watched for: as many as the program takes.
	maxAbsent = 1024
	// maxObeyed is how many mounts are made for them, at most: the wrapper takes 9,000
	// arguments, of which each mount is five and each name that is watched for two.
	maxObeyed = 1000
)

// resolveObeyed finds what programs outside obey in the roots that were asked for, and in
// a home directory within one: what exists is read-only, what does not is watched for.
func (l *layout) resolveObeyed(p *Policy) {
	for _, root := range l.asked {
		for _, name := range inTree {
			l.obeyOne(root, name)
		}
	}
	for _, home := range p.Homes {
		w, err := l.passed.trace(home)
		if err != nil || l.shadowed(w.target) || l.rootOf(w.target) == "" {
			continue
		}
		for _, name := range inHome {
			l.obeyOne(w.target, name)
		}
	}
	l.obeyGit(p.Homes)
	slices.Sort(l.obeyed)
	l.obeyed = slices.Compact(l.obeyed)
	slices.Sort(l.absent)
	l.absent = slices.Compact(l.absent)
	if kept := min(len(l.absent), maxAbsent); kept < len(l.absent) {
		l.unwatched, l.absent = append(l.unwatched, l.absent[kept:]...), l.absent[:kept]
	}
	slices.Sort(l.unwatched)
	l.unwatched = slices.Compact(l.unwatched)
}

// obey adds what name is in a directory of root, itself by its name in it. A "*" in name
// stands for any.
func (l *layout) obey(root, dir, name string) {
	parent, rest, many := strings.Cut(name, "/*/")
	if !many {
		l.obeyOne(root, filepath.Join(dir, name))
		return
	}
	parent = filepath.Join(dir, parent)
	entries, err := os.ReadDir(filepath.Join(root, parent))
	if len(entries) > maxMatches || (err != nil && !isMissing(err)) { // a command can have closed it, and open it again
		l.obeyOne(root, parent)
		return
	}
	for _, entry := range entries {
		l.obeyOne(root, filepath.Join(parent, entry.Name(), rest))
	}
}

// entriesOf returns the names in a directory: none where it cannot be read.
func entriesOf(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

// obeyOne adds what is in dir by that name.
func (l *layout) obeyOne(dir, name string) {
	path := filepath.Join(dir, name)
	if l.opened(dir, path) || l.shadowed(path) || l.fixed(path) {
		return
	}
	w, err := l.passed.trace(path)
	switch {
	case err == nil:
		// A link can be replaced whatever is done; what it leads to cannot.
		l.fix(w.target)
	case isMissing(err):
		l.absent = append(l.absent, path)
	case errors.Is(err, fs.ErrPermission):
		l.obeyClosed(dir, path)
	default:
		l.unwatched = append(l.unwatched, path)
	}
}

// fix makes a path read-only that lies in a root and is none.
func (l *layout) fix(path string) {
	root := l.rootOf(path)
	if root == "" || l.shadowed(path) || l.fixed(path) || slices.Contains(l.roots, path) || slices.Contains(l.nested, path) {
		return
	}
	mounts := depth(root, path)
	if l.mounted+mounts > maxObeyed {
		l.unwatched = append(l.unwatched, path)
		return
	}
	l.mounted += mounts
	l.obeyed = append(l.obeyed, path)
}

// depth is how many mounts it takes at most to fix path, which lies in root: one for it, and
// one for each directory on the way.
func depth(root, path string) int {
	return strings.Count(strings.TrimPrefix(path, root), "/")
}

// obeyClosed makes read-only, in the place of path, the directory on the way to it that
// cannot be passed: who has closed it can open it again, but not through a read-only mount.
func (l *layout) obeyClosed(dir, path string) {
	for at := path; at != dir; at = filepath.Dir(at) {
		if w, err := l.passed.trace(at); err == nil {
			l.fix(w.target)
			return
		}
	}
	l.unwatched = append(l.unwatched, path)
}

// fixed reports whether path lies in what is read-only already: the innermost directory
// decides of those that the layout knows.
func (l *layout) fixed(path string) bool {
	innermost := 0
	for _, root := range slices.Concat(l.nested, l.revealed) {
		if within(path, root) {
			innermost = max(innermost, len(root))
		}
	}
	covers := func(dir string) bool { return within(path, dir) && len(dir) > innermost }
	return holding(l.protected, path) != "" || slices.ContainsFunc(l.obeyed, covers)
}

// opened reports whether a root that was asked for in dir holds path: who asks for it
// wants it to be written.
func (l *layout) opened(dir, path string) bool {
	return slices.ContainsFunc(l.asked, func(root string) bool { return root != dir && within(root, dir) && within(path, root) })
}

// isMissing reports whether an error says that there is nothing.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
