package isolate

import (
	"cmp"
	"path/filepath"
	"slices"
)

// mount is one mount of a layout.
type mount struct {
	path string
	rank rank
	args []string
}

// rank says which of the mounts at one path is made.
type rank int

const (
	rankDir rank = iota
	rankPin
	rankKept
	rankRoot
	rankEmptied
	rankProtected
	rankState
	rankHidden
)

// mounts are the arguments for everything that differs from the level's base. One mount
// covers another that lies within it and comes before it: so the outer comes first, and
// where one is to hold for all that lies within, those are left out. bound are the paths
// that are mounted at themselves.
func (l *layout) mounts() (args, bound []string) {
	var all []mount
	add := func(r rank, paths []string, args func(path string) []string) {
		for _, path := range paths {
			all = append(all, mount{path, r, args(path)})
		}
	}
	empty := func(path string) []string { return []string{"--tmpfs", path} }
	bind := func(path string) []string { return []string{"--bind", path, path} }
	readOnly := func(path string) []string { return []string{"--ro-bind", path, path} }
	add(rankDir, l.passages(), func(path string) []string { return []string{"--dir", path} })
	add(rankPin, l.pins(), bind)
	add(rankKept, l.kept, readOnly)
	add(rankRoot, slices.Concat(l.roots, l.revealed), bind)
	add(rankRoot, slices.DeleteFunc(slices.Clone(l.nested), func(dir string) bool { return holding(l.protected, dir) != "" }), bind)
	add(rankEmptied, l.emptied, empty)
	for _, o := range l.own {
		all = append(all, mount{o.path, rankEmptied, []string{"--perms", o.perms, "--tmpfs", o.path}})
	}
	add(rankProtected, slices.Concat(l.protected, l.obeyed), readOnly)
	if l.state != "" {
		add(rankState, []string{l.state}, empty)
	}
	for _, m := range l.hidden {
		all = append(all, mount{m.path, rankHidden, m.args()})
	}
	slices.SortFunc(all, func(a, b mount) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(b.rank, a.rank)) })
	all = slices.CompactFunc(all, func(a, b mount) bool { return a.path == b.path })
	for _, m := range all {
		if m.rank != rankHidden && slices.ContainsFunc(l.hidden, func(h mask) bool { return within(m.path, h.path) }) {
			continue
		}
		args = append(args, m.args...)
		if m.args[len(m.args)-2] == m.path {
			bound = append(bound, m.path)
		}
	}
	return args, bound
}

// passages lists the directories that lead to a mount on a file system of the sandbox. The
// wrapper would make them for who starts it alone.
func (l *layout) passages() []string {
	if l.drop == nil {
		return nil
	}
	to := slices.Concat(l.roots, l.nested, l.revealed, l.emptied)
	for _, o := range l.own {
		to = append(to, o.path)
	}
	var out []string
	for _, path := range to {
		for dir := filepath.Dir(path); dir != "/" && l.shadowed(dir); dir = filepath.Dir(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// pins lists the directories between a writable root and what is fixed in it: what is
// protected or hidden, the state directory, a root that was asked for. As mount points
// of their own they can be neither renamed nor removed, so that nothing else can take
// their place, in this sandbox or for the next one.
func (l *layout) pins() []string {
	var out []string
	pin := func(root, dir string) {
		for ; root != "" && dir != root; dir = filepath.Dir(dir) {
			// On a file system of the sandbox nothing else can take its place, nor where
			// nothing can be written.
			if !l.shadowed(dir) && !l.fixed(dir) {
				out = append(out, dir)
			}
		}
	}
	for _, path := range slices.Concat(l.protected, l.obeyed, l.emptied) {
		pin(l.rootOf(path), filepath.Dir(path))
	}
	for _, m := range l.hidden {
		if root := l.holder(m.path); root != "" {
			pin(root, filepath.Dir(m.path))
		}
	}
	for _, path := range l.nested {
		pin(l.rootOf(path), path)
	}
	if root := l.rootOf(l.state); l.state != "" && root != "" {
		pin(root, filepath.Dir(l.state))
	}
	return out
}

// sealable lists the directories in which nothing can be made once the mounts in them
// are there.
func (l *layout) sealable() []string {
	out := slices.Clone(l.emptied)
	if l.state != "" {
		out = append(out, l.state)
	}
	if l.jail {
		out = append(out, "/")
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(dir string) bool {
		return slices.ContainsFunc(l.hidden, func(h mask) bool { return within(dir, h.path) })
	})
}

// sealed lists the mount points on which the wall stands. A file that programs obey is
// none of them: programs outside replace it in their daily work.
func (l *layout) sealed() []string {
	out := slices.Concat(l.protected, slices.DeleteFunc(slices.Clone(l.obeyed), isFile))
	for _, m := range l.hidden {
		out = append(out, m.path)
	}
	if l.state != "" {
		out = append(out, l.state)
	}
	return append(out, l.homes...)
}

// writable lists where commands can write.
func (l *layout) writable() []string {
	out := slices.Concat(l.roots, l.revealed)
	for _, o := range l.own {
		out = append(out, o.path)
	}
	return out
}

// given lists the directories that belong to whom the program becomes.
func (l *layout) given() []string {
	if l.drop == nil {
		return nil
	}
	var out []string
	for _, o := range l.own {
		if o.perms == private {
			out = append(out, o.path)
		}
	}
	for _, m := range l.hidden {
		if m.kind == maskOwn {
			out = append(out, m.path)
		}
	}
	return out
}

// mapped lists what is idmapped, the program too where it is not to be run otherwise.
func (l *layout) mapped() []string {
	out := slices.Clone(l.idmapped)
	if owner, _, err := l.attr(l.program); l.drop != nil && err == nil && owner.UID == 0 && !l.grants(l.program, executable) && holding(out, l.program) == "" {
		out = append(out, l.program)
	}
	return out
}
