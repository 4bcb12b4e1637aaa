package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Policy is what a guard is to enforce. All paths are absolute.
type Policy struct {
	// Bwrap is the wrapper's path.
	Bwrap string
	// Workdir is writable; it must exist.
	Workdir string
	// WritableRoots are writable beside it; each must be a directory.
	WritableRoots []string
	// OptionalRoots are writable if they exist: the temporary directories.
	OptionalRoots []string
	// Hidden are files and directories that nothing inside can read. Those that
	// do not exist are passed over. None may contain a writable root.
	Hidden []string
	// State is hidden too, but for a workdir inside it. Nothing inside can put
	// another directory in its place.
	State string
	// Program is the executable to be run. It stays readable wherever it lies,
	// and nothing inside can write to it or put another one in its place.
	Program string
	// Protected are files and directories that get the same care where they lie
	// in a writable root.
	Protected []string
	// Network is NetworkNone or NetworkOpen.
	Network spec.Network
	// InfoFD is the descriptor on which the wrapper says which process it made.
	// 0: it does not say.
	InfoFD int
}

// programInside is where a program is shown whose own path is not to be seen inside.
const programInside = "/run/berth-guest"

// kernelDirs are the kernel's interfaces; no root may lie there.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Guard returns the wrapper's path and arguments that run the policy's program with
// argv (its arguments, without its name) as pid 1 behind the wall. It refuses with
// CodeInvalidPath a root that does not exist, and with CodeInvalid one that cannot be
// writable, and a hidden path that contains a writable root.
//
// The order is the meaning: a mount covers those before it, and a bind shows the
// machine's own directory again, without what had been mounted in it.
func Guard(p Policy, argv []string) (path string, args []string, err error) {
	l, err := p.resolve()
	if err != nil {
		return "", nil, err
	}
	args = namespaces(p.Network)
	if p.InfoFD != 0 {
		args = append(args, "--info-fd", strconv.Itoa(p.InfoFD))
	}
	args = append(args, base()...)
	args = append(args, resolver(p.Network)...)
	for _, dir := range l.roots {
		args = append(args, "--bind", dir, dir)
	}
	for _, dir := range l.pins() {
		args = append(args, "--bind", dir, dir)
	}
	for _, path := range l.protected {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, l.hideState()...)
	for _, h := range l.hidden {
		args = append(args, h.args()...)
	}
	inside := l.program
	if l.shadowed(l.program) {
		inside = programInside
		args = append(args, "--ro-bind", l.program, inside)
	}
	args = append(args, "--chdir", "/", "--", inside)
	return p.Bwrap, append(args, argv...), nil
}

// base are the mounts of every guard.
func base() []string {
	return []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"}
}

// namespaces are the arguments that make the wall without its mounts.
func namespaces(network spec.Network) []string {
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if network != spec.NetworkOpen {
		args = append(args, "--unshare-net")
	}
	return append(args, "--disable-userns", "--cap-drop", "ALL", "--new-session", "--as-pid-1")
}

// resolver keeps name resolution working where resolv.conf is a link into /run.
func resolver(network spec.Network) []string {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if network != spec.NetworkOpen || err != nil || !within(target, "/run") {
		return nil
	}
	return []string{"--ro-bind", target, target}
}

// layout is a policy with every path resolved: free of links, and there.
type layout struct {
	program   string
	state     string   // "" if there is none
	roots     []string // writable, none within another
	revealed  []string // writable, within state
	hidden    []mask
	protected []string // read-only within a writable root
}

func (p *Policy) resolve() (*layout, error) {
	l := &layout{}
	var err error
	if l.program, err = filepath.EvalSymlinks(p.Program); err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary: %w", err)}
	}
	if p.State != "" {
		if l.state, err = filepath.EvalSymlinks(p.State); err != nil {
			return nil, &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("the state directory: %w", err)}
		}
	}
	if err := l.resolveRoots(p); err != nil {
		return nil, err
	}
	if err := l.resolveHidden(p.Hidden); err != nil {
		return nil, err
	}
	for _, path := range append([]string{l.program}, p.Protected...) {
		resolved, err := filepath.EvalSymlinks(path)
		if err == nil && l.rootOf(resolved) != "" && !l.shadowed(resolved) {
			l.protected = append(l.protected, resolved)
		}
	}
	slices.Sort(l.protected)
	l.protected = slices.Compact(l.protected)
	return l, nil
}

// resolveRoots finds the writable roots, without those that lie in another one.
func (l *layout) resolveRoots(p *Policy) error {
	required := 1 + len(p.WritableRoots)
	for i, path := range slices.Concat([]string{p.Workdir}, p.WritableRoots, p.OptionalRoots) {
		root, err := resolveRoot(path)
		switch {
		case err != nil && i < required:
			return err
		case err != nil:
		case l.state != "" && within(root, l.state):
			if root == l.state {
				return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: errors.New("the state directory cannot be writable")}
			}
			l.revealed = append(l.revealed, root)
		case l.rootOf(root) == "":
			l.roots = slices.DeleteFunc(l.roots, func(o string) bool { return within(o, root) })
			l.roots = append(l.roots, root)
		}
	}
	return nil
}

// rootOf returns the writable root that holds path, or "".
func (l *layout) rootOf(path string) string {
	at := slices.IndexFunc(l.roots, func(root string) bool { return within(path, root) })
	if at < 0 {
		return ""
	}
	return l.roots[at]
}

func resolveRoot(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the writable root is not an absolute path")}
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: fmt.Errorf("the writable root: %w", err)}
	}
	if st, err := os.Stat(resolved); err != nil || !st.IsDir() {
		return "", &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the writable root is not a directory")}
	}
	refuse := func(why string) error { return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: errors.New(why)} }
	if resolved == "/" {
		return "", refuse("/ as a writable root leaves no wall")
	}
	if resolved == "/run" {
		return "", refuse("/run as a writable root opens the sockets of every service")
	}
	for _, dir := range kernelDirs {
		if within(resolved, dir) {
			return "", refuse(dir + " cannot be writable")
		}
	}
	return resolved, nil
}

// mask is one path that is hidden.
type mask struct {
	path string
	dir  bool
}

func (m mask) args() []string {
	if m.dir {
		return []string{"--tmpfs", m.path, "--remount-ro", m.path}
	}
	return []string{"--ro-bind", "/dev/null", m.path}
}

// resolveHidden finds what is to be hidden and exists, without what is out of sight
// anyway.
func (l *layout) resolveHidden(paths []string) error {
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return &spec.Error{Code: spec.CodeInvalidPath, Path: path, Err: errors.New("the hidden path is not absolute")}
		}
		// What cannot be reached out here cannot be reached in there either.
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		st, err := os.Stat(resolved)
		if err != nil {
			continue
		}
		for _, root := range slices.Concat(l.roots, l.revealed) {
			if within(root, resolved) {
				return &spec.Error{Code: spec.CodeInvalid, Path: path, Err: fmt.Errorf("the hidden path contains the writable root %q", root)}
			}
		}
		if l.shadowed(resolved) && !slices.ContainsFunc(l.revealed, func(r string) bool { return within(resolved, r) }) {
			continue
		}
		l.hidden = slices.DeleteFunc(l.hidden, func(m mask) bool { return within(m.path, resolved) })
		l.hidden = append(l.hidden, mask{resolved, st.IsDir()})
	}
	return nil
}

// shadowed reports whether a mount of the guard, so far as the layout holds them,
// covers path.
func (l *layout) shadowed(path string) bool {
	if slices.ContainsFunc(l.hidden, func(m mask) bool { return within(path, m.path) }) || (l.state != "" && within(path, l.state)) {
		return true
	}
	return l.rootOf(path) == "" && slices.ContainsFunc([]string{"/run", "/dev", "/proc"}, func(dir string) bool { return within(path, dir) })
}

// pins lists the directories between a writable root and what is protected in it, or
// the state directory. As mount points of their own they can be neither renamed nor
// removed, so that nothing else can take their place.
func (l *layout) pins() []string {
	paths := l.protected
	if l.state != "" {
		paths = append(slices.Clone(paths), l.state)
	}
	var out []string
	for _, path := range paths {
		root := l.rootOf(path)
		if root == "" || root == path {
			continue
		}
		for dir := filepath.Dir(path); dir != root; dir = filepath.Dir(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out) // a parent before what is in it
	return slices.Compact(out)
}

// hideState hides the state directory, and shows in it the roots that lie there.
func (l *layout) hideState() []string {
	if l.state == "" {
		return nil
	}
	args := []string{"--tmpfs", l.state}
	for _, root := range l.revealed {
		args = append(args, "--bind", root, root)
	}
	return append(args, "--remount-ro", l.state)
}

// within reports whether path is dir or lies in it; both are clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// Credentials lists what guard hides of a home directory.
func Credentials(home string) []string {
	names := []string{".ssh", ".aws", ".gnupg", ".azure", ".config/gcloud", ".kube", ".docker/config.json", ".netrc", ".credentials.json"}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = filepath.Join(home, name)
	}
	return out
}

// GitCommonDir returns the directory of the repository that the linked worktree at dir
// belongs to: git writes there. It returns "" if dir is no linked worktree. What the
// files say is believed only where they point at each other.
func GitCommonDir(dir string) string {
	link, err := os.ReadFile(filepath.Join(dir, ".git"))
	if err != nil { // a directory, in an ordinary repository
		return ""
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir: ")
	if !ok {
		return ""
	}
	gitDir, err := filepath.EvalSymlinks(rebase(dir, target))
	if err != nil {
		return ""
	}
	common, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return ""
	}
	back, err := os.ReadFile(filepath.Join(gitDir, "gitdir"))
	if err != nil || !sameFile(rebase(gitDir, strings.TrimSpace(string(back))), filepath.Join(dir, ".git")) {
		return ""
	}
	out, err := filepath.EvalSymlinks(rebase(gitDir, strings.TrimSpace(string(common))))
	if err != nil || !within(gitDir, filepath.Join(out, "worktrees")) {
		return ""
	}
	return out
}

func rebase(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
