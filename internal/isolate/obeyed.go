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
// environment of a shell that enters it. A "*" stands for any name.
var inTree = []string{
	".git/config", ".git/config.worktree", ".git/commondir", ".git/hooks",
	".git/worktrees/*/commondir", ".git/worktrees/*/config.worktree",
	".githooks", ".husky", ".lefthook.yml", "lefthook.yml", ".pre-commit-config.yaml",
	".devcontainer", ".idea", ".vscode", ".zed",
	".claude", ".codex", ".cursor", ".gemini", ".mcp.json",
	".envrc", ".mise.toml", "mise.toml",
}

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
	// maxConfigBytes bounds what is read of the configuration of a repository.
	maxConfigBytes = 256 << 10
	// maxAbsent is how many names are watched for: as many as the program takes.
	maxAbsent = 1024
)

// resolveObeyed finds what programs outside obey in the roots that were asked for, and in
// a home directory within one: what exists is read-only, what does not is watched for.
func (l *layout) resolveObeyed(p *Policy) {
	for _, root := range l.asked {
		for _, name := range inTree {
			l.obey(root, name)
		}
		l.obeyModules(root, ".git/modules")
		for _, dir := range entriesOf(filepath.Join(root, ".git/worktrees")) {
			l.obeyModules(root, filepath.Join(".git/worktrees", dir, "modules"))
		}
		if dir := hooksPath(root); dir != "" {
			l.obey(root, dir)
		}
	}
	for _, home := range p.Homes {
		w, err := l.passed.trace(home)
		if err != nil || l.shadowed(w.target) || l.rootOf(w.target) == "" {
			continue
		}
		for _, name := range inHome {
			l.obey(w.target, name)
		}
	}
	slices.Sort(l.obeyed)
	l.obeyed = slices.Compact(l.obeyed)
	slices.Sort(l.absent)
	l.absent = slices.Compact(l.absent)
	if kept := min(len(l.absent), maxAbsent); kept < len(l.absent) {
		l.unwatched, l.absent = l.absent[kept:], l.absent[:kept]
	}
}

// obey adds what name is in dir.
func (l *layout) obey(dir, name string) {
	parent, rest, many := strings.Cut(name, "/*/")
	if !many {
		l.obeyOne(dir, name)
		return
	}
	names := entriesOf(filepath.Join(dir, parent))
	if len(names) > maxMatches {
		l.obeyOne(dir, parent)
		return
	}
	for _, name := range names {
		l.obeyOne(dir, filepath.Join(parent, name, rest))
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

func (l *layout) obeyOne(dir, name string) {
	path := filepath.Join(dir, name)
	if l.opened(dir, path) || l.shadowed(path) {
		return
	}
	w, err := l.passed.trace(path)
	switch {
	case err == nil:
		// A link can be replaced whatever is done; what it leads to cannot.
		if l.rootOf(w.target) != "" && !l.shadowed(w.target) && !slices.Contains(l.roots, w.target) && !slices.Contains(l.nested, w.target) {
			l.obeyed = append(l.obeyed, w.target)
		}
	case errors.Is(err, fs.ErrNotExist):
		// Of a repository that does not exist the making is told, not that of its parts.
		if rest, ok := strings.CutPrefix(name, ".git/"); ok && rest != "" && !exists(filepath.Join(dir, ".git")) {
			path = filepath.Join(dir, ".git")
		}
		l.absent = append(l.absent, path)
	case name == ".git/hooks": // a file says where the repository is
		if isFile(filepath.Join(dir, ".git")) {
			l.obeyed = append(l.obeyed, filepath.Join(dir, ".git"))
		}
	}
}

// opened reports whether a root that was asked for in dir holds path: who asks for it
// wants it to be written.
func (l *layout) opened(dir, path string) bool {
	return slices.ContainsFunc(l.asked, func(root string) bool { return root != dir && within(root, dir) && within(path, root) })
}

// hooksPath returns the directory in which git looks for the hooks of the repository at
// root, relative to root, if its configuration names one that lies there.
func hooksPath(root string) string {
	text, err := readSmall(filepath.Join(root, ".git", "config"), maxConfigBytes)
	if err != nil {
		return ""
	}
	section, found := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.Trim(line, "[] \t"))
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if ok && section == "core" && strings.EqualFold(strings.TrimSpace(name), "hookspath") {
			found = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if filepath.IsAbs(found) {
		found = strings.TrimPrefix(found, root+"/")
	}
	if !filepath.IsLocal(found) || filepath.Clean(found) == "." {
		return ""
	}
	return filepath.Clean(found)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// isMissing reports whether an error says that there is nothing.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}
