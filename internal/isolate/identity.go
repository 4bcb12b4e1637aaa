package isolate

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
)

// RunsAs returns whom the program of the policy's wall runs as.
func (p *Policy) RunsAs() Identity {
	if id := p.dropped(); id != nil {
		return *id
	}
	return Identity{p.EUID, p.EGID}
}

// dropped returns who the program is to become, or nil.
func (p *Policy) dropped() *Identity {
	if p.EUID != 0 || p.KeepRoot {
		return nil
	}
	id := p.Owner
	if id.UID == 0 {
		return &nobody
	}
	if id.GID == 0 { // what root's group may read is not the owner's
		id.GID = nobody.GID
	}
	return &id
}

// OwnerOf returns to whom path belongs: root, where that cannot be told.
func OwnerOf(path string) Identity {
	owner, _, err := attributes(path)
	if err != nil {
		return Identity{}
	}
	return owner
}

// identify are the arguments that tell the program whom to become.
func (w *Wall) identify() []string {
	if w.Drop == nil {
		return nil
	}
	args := []string{"--drop", strconv.Itoa(w.Drop.UID) + ":" + strconv.Itoa(w.Drop.GID)}
	for _, dir := range w.Own {
		args = append(args, "--own", dir)
	}
	return args
}

// searchable and readable are what a directory, and a program, must grant.
const (
	searchable fs.FileMode = 0o1
	executable fs.FileMode = 0o5
)

// grants reports whether the user whom the sandbox runs as has all the rights of want
// for a path, as its mode alone tells; within an idmapped path what is root's is that
// user's. What cannot be looked at grants everything: its use says more.
func (l *layout) grants(path string, want fs.FileMode) bool {
	if l.drop == nil {
		return true
	}
	owner, mode, err := l.attr(path)
	if err != nil {
		return true
	}
	if holding(l.idmapped, path) != "" {
		if owner.UID == 0 {
			owner.UID = l.drop.UID
		}
		if owner.GID == 0 {
			owner.GID = l.drop.GID
		}
	}
	switch {
	case owner.UID == l.drop.UID:
		want <<= 6
	case owner.GID == l.drop.GID:
		want <<= 3
	}
	return mode&want == want
}

// idmap finds the roots that belong to root and that the sandbox, which runs as another
// user, is to write all the same. One that everybody shares, as /tmp, stays as it is.
func (l *layout) idmap() {
	if l.drop == nil {
		return
	}
	for _, root := range slices.Concat(l.roots, l.nested, l.revealed) {
		owner, mode, err := l.attr(root)
		shared := mode&fs.ModeSticky != 0 && mode&0o002 != 0
		if err == nil && owner.UID == 0 && !shared {
			l.idmapped = append(l.idmapped, root)
		}
	}
	slices.Sort(l.idmapped) // one before what lies in it
	var out []string
	for _, path := range l.idmapped {
		if holding(out, path) == "" {
			out = append(out, path)
		}
	}
	l.idmapped = out
}

// closed returns the outermost directory above path that can be seen inside and that the
// user whom the sandbox runs as cannot pass; or "".
func (l *layout) closed(path string) string {
	if l.drop == nil {
		return ""
	}
	found := ""
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if !l.shadowed(dir) && !l.grants(dir, searchable) {
			found = dir
		}
		if dir == "/" {
			return found
		}
	}
}

// open makes the way to what is writable one that the user whom the sandbox runs as can
// go: a directory that lets only others pass is empty, but for what is to be reached.
func (l *layout) open() {
	for _, root := range slices.Concat(l.roots, l.nested, l.revealed) {
		if dir := l.closed(root); dir != "" {
			l.emptied = append(l.emptied, dir)
		}
	}
}
