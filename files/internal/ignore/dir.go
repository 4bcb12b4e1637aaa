package ignore

// maxMemory is the most that the rules of a directory and of all above it take.
const maxMemory = 64 << 20

// Dir is what git ignores in one directory and, where nothing new is said there, below
// it. The Dirs of one walk are not safe for concurrent use.
type Dir struct {
	up *Dir // the directory above; nil at the top of the work tree
	// dir is the directory's path from the top with a slash behind it, "" for the
	// top itself.
	dir     string
	rules   *Rules // of its .gitignore; nil: it has none
	exclude *Rules // of .git/info/exclude, at the top only
	// from is the path from the top to where the walk began, as dir is spelled.
	from    string
	size    int      // of all rules from here to the top, in memory
	matcher *Matcher // one for the walk
}

// Top is the top of a work tree. The end of done makes answers void that take long.
func Top(done <-chan struct{}) *Dir { return &Dir{matcher: &Matcher{Done: done}} }

// Ignores reports whether git ignores what lies at rel, from where the walk began. The
// last rule of the deepest file that has something to say decides.
func (d *Dir) Ignores(rel string, dir bool) bool {
	full := d.from + rel
	for at := d; at != nil; at = at.up {
		for _, rules := range []*Rules{at.rules, at.exclude} {
			if rules == nil {
				continue
			}
			if ignored, decided := d.matcher.Match(rules, full[len(at.dir):], dir); decided {
				return ignored
			}
		}
	}
	return false
}

// Below is what holds in the directory at rel until its .gitignore has been read.
func (d *Dir) Below(rel string) *Dir {
	return &Dir{up: d, dir: d.from + rel + "/", from: d.from, size: d.size, matcher: d.matcher}
}

// Load takes the directory's .gitignore; false: there is no room for its rules.
func (d *Dir) Load(data []byte) (ok bool) {
	d.rules, ok = d.parse(data)
	return ok
}

// LoadExclude takes the .git/info/exclude of a top.
func (d *Dir) LoadExclude(data []byte) (ok bool) {
	d.exclude, ok = d.parse(data)
	return ok
}

func (d *Dir) parse(data []byte) (*Rules, bool) {
	rules, ok := Parse(data, maxMemory-d.size)
	if ok {
		d.size += rules.Size()
	}
	return rules, ok
}

// Begin says that the walk begins in this directory, and not at the top.
func (d *Dir) Begin() {
	for at := d; at != nil; at = at.up {
		at.from = d.dir
	}
}
