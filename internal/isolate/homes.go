package isolate

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Where systems keep the homes of people, and of root.
const (
	homesDir = "/home"
	rootHome = "/root"
)

// private are the rights of a directory that is the sandbox's own.
const private = "0700"

// sharedHomes lie among the homes and are everybody's: programs are run from them.
var sharedHomes = []string{"/home/linuxbrew/.linuxbrew"}

// People lists the home directories of the people of a machine, so far as passwd, the
// text of its /etc/passwd, and custom tell. An account of the system has none: its
// directory is a part of the machine.
func People(passwd []byte) []string {
	const (
		directory = 5 // passwd(5)
		fields    = 7
		firstUID  = 1000
		noUID     = 65534
	)
	out := []string{homesDir, rootHome}
	for line := range bytes.Lines(passwd) {
		entry := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(entry) != fields || !filepath.IsAbs(entry[directory]) {
			continue
		}
		uid, err := strconv.Atoi(entry[2])
		if err == nil && (uid == 0 || (uid >= firstUID && uid != noUID)) {
			out = append(out, filepath.Clean(entry[directory]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// maxHomes is how many homes in one directory are emptied one by one.
const maxHomes = 16

// emptyHomes empties the homes of others, and root's own where the sandbox runs as
// somebody else. What is no home although it is said to be one is left alone.
func (l *layout) emptyHomes(p *Policy) {
	var mine []string
	for _, home := range p.Homes {
		w, err := l.passed.trace(home)
		if err != nil || !isHome(w.target) {
			continue
		}
		mine = append(mine, w.target)
		switch {
		case l.drop == nil:
			l.kept = append(l.kept, w.target)
		case l.rootOf(w.target) == "":
			l.own = append(l.own, own{w.target, private})
		}
	}
	others := map[string][]string{} // by the directory that they lie in
	for _, home := range p.OtherHomes {
		w, err := l.passed.trace(home)
		if err != nil || !isHome(w.target) || slices.Contains(mine, w.target) || l.shadowed(w.target) || l.rootOf(w.target) != "" {
			continue
		}
		if holding([]string{homesDir}, w.target) != "" {
			w.target = homesDir
		}
		dir := filepath.Dir(w.target)
		others[dir] = append(others[dir], w.target)
	}
	for dir, homes := range others {
		if len(homes) > maxHomes && isHome(dir) && l.rootOf(dir) == "" {
			homes = []string{dir}
		}
		l.homes = append(l.homes, homes...)
	}
	slices.Sort(l.homes)
	l.homes = slices.Compact(l.homes)
	l.emptied = slices.Clone(l.homes)
	for _, dir := range sharedHomes {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			l.kept = append(l.kept, dir)
		}
	}
	l.kept = slices.DeleteFunc(l.kept, func(dir string) bool { return holding(l.emptied, dir) == "" || l.rootOf(dir) != "" })
}

// isHome reports whether a directory can be a person's: it is there, and no part of the
// system lies in it.
func isHome(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	return !slices.ContainsFunc(systemParts, func(part string) bool { return within(part, dir) })
}

// systemParts are directories that every program relies on.
var systemParts = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr/bin", "/usr/lib", "/usr/sbin", "/usr/share", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp"}
