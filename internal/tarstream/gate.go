package tarstream

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// Options say what else is refused, and how much is taken.
type Options struct {
	Limits Limits
	// UTF8 refuses a path or a link that is not UTF-8.
	UTF8 bool
	// CaseTwins refuses names that differ only in the case of their letters, which
	// some file systems take for one, as duplicates.
	CaseTwins bool
	// OmitOthers passes over what is neither a file, a directory nor a link. It is for
	// what container engines write, to whom all that has several names is a hard link
	// but under the first: one to what was passed over is too, and one to a symbolic
	// link is another of those, with the same target.
	OmitOthers bool
	// OmitLinks passes over the symbolic links that may lead out.
	OmitLinks bool
}

const blockBytes = 512

// maxElement is the longest element of a path that common file systems take.
const maxElement = 255

// gate lets entries pass that an archive may hold.
type gate struct {
	o       Options
	bytes   int64 // as Limits.ArchiveBytes counts
	index   int   // of the entry that is looked at
	entries int   // and directories that are implied
	seen    *seen // nil: names are distinct, and no hard link is among them
}

func newGate(o Options, names bool) *gate {
	o.Limits = o.Limits.withDefaults()
	g := &gate{o: o}
	if names || o.CaseTwins {
		g.seen = newSeen(o.CaseTwins)
	}
	return g
}

func (g *gate) refuse(reason Reason, name, format string, args ...any) error {
	return refuse(reason, g.index, name, format, args...)
}

// padded is what n bytes take in an archive.
func padded(n int64) int64 { return (n + blockBytes - 1) / blockBytes * blockBytes }

// count adds bytes to what the archive has.
func (g *gate) count(n int64, name string) error {
	if n > g.o.Limits.ArchiveBytes-g.bytes {
		return g.refuse(ArchiveTooLarge, name, "the archive has more than %d bytes", g.o.Limits.ArchiveBytes)
	}
	g.bytes += n
	return nil
}

// room counts an entry or a directory.
func (g *gate) room(name string) error {
	if g.entries == g.o.Limits.Entries {
		return g.refuse(ArchiveTooLarge, name, "the archive has more than %d entries", g.o.Limits.Entries)
	}
	g.entries++
	return nil
}

// size checks that of one file and counts it.
func (g *gate) size(n int64, name string) error {
	if n > min(g.o.Limits.FileBytes, math.MaxInt64-blockBytes) {
		return g.refuse(FileTooLarge, name, "%d bytes, at most %d are allowed", n, g.o.Limits.FileBytes)
	}
	return g.count(padded(n), name)
}

// admit checks an entry whose headers have been counted, and takes it in. Of a hard
// link it finds out the size.
func (g *gate) admit(h *Header) error {
	if detail := wrongPath(h.Path); detail != "" {
		return g.refuse(BadPath, h.Path, "%s", detail)
	}
	if g.o.UTF8 && !utf8.ValidString(h.Path) {
		return g.refuse(BadPath, h.Path, "not UTF-8")
	}
	if err := g.room(h.Path); err != nil {
		return err
	}
	kind := stated
	switch h.Type {
	case File:
		kind = h.Size
	case Symlink:
		kind = linked
		if detail := wrongTarget(h.Path, h.Target); detail != "" {
			return g.refuse(BadSymlink, h.Path, "%s", detail)
		}
		if g.o.UTF8 && !utf8.ValidString(h.Target) {
			return g.refuse(BadSymlink, h.Path, "its target is not UTF-8")
		}
	case Hardlink:
		size, detail := g.seen.file(h.Target)
		if detail != "" {
			return g.refuse(BadHardlink, h.Path, "%s", detail)
		}
		h.Size, kind = size, size
	}
	if h.Type == File || h.Type == Hardlink {
		if err := g.size(h.Size, h.Path); err != nil {
			return err
		}
	}
	if g.seen == nil {
		return nil
	}
	return g.add(h.Path, kind)
}

// omit takes in the name of an entry that is passed over.
func (g *gate) omit(h *Header) error {
	if detail := wrongPath(h.Path); detail != "" {
		return g.refuse(BadPath, h.Path, "%s", detail)
	}
	if err := g.room(h.Path); err != nil {
		return err
	}
	if h.Type == Symlink {
		return g.add(h.Path, linked)
	}
	return g.add(h.Path, omitted)
}

// keep remembers the target of a symbolic link, for other names of it.
func (g *gate) keep(h *Header) {
	s := g.seen
	if size := len(h.Target) + targetBytes; s.kept+size <= maxTargets {
		if s.targets == nil {
			s.targets = make(map[[2]uint64]string)
		}
		s.targets[s.hash(h.Path)] = strings.Clone(h.Target)
		s.kept += size
	}
}

// follow makes a hard link to a symbolic link one of its own, and reports whether one is to
// be passed over as what it leads to was.
func (g *gate) follow(h *Header) (omit bool, err error) {
	sum := g.seen.hash(h.Target)
	switch g.seen.kinds[sum] {
	case omitted:
		return true, nil
	case linked:
		target, ok := g.seen.targets[sum]
		if !ok {
			return false, g.refuse(ArchiveTooLarge, h.Path, "the targets of the symbolic links before have more than %d bytes", maxTargets)
		}
		h.Type, h.Target = Symlink, target
	}
	return false, nil
}

// add takes a name in, and the directories that it implies.
func (g *gate) add(name string, kind int64) error {
	s := g.seen
	if dir := name[:max(strings.LastIndexByte(name, '/'), 0)]; dir != s.dir {
		for i := range len(dir) + 1 {
			if i > 0 && (i == len(dir) || dir[i] == '/') {
				if err := g.imply(dir[:i], name); err != nil {
					return err
				}
			}
		}
		s.dir = strings.Clone(dir)
	}
	sum := s.hash(name)
	before, known := s.kinds[sum]
	switch {
	case !known:
		if kind != omitted && s.twin(name, sum) {
			return g.refuse(Duplicate, name, "an earlier entry differs only in the case of its letters")
		}
	case before == implied && kind == stated:
	case (before == implied || before == stated) != (kind == stated):
		return g.refuse(PathConflict, name, "what is a directory elsewhere in the archive is none here, or the other way round")
	default:
		return g.refuse(Duplicate, name, "it is there already")
	}
	s.kinds[sum] = kind
	return nil
}

// imply takes in a directory that the name of an entry speaks of.
func (g *gate) imply(dir, name string) error {
	s := g.seen
	sum := s.hash(dir)
	switch before, known := s.kinds[sum]; {
	case known && before == linked:
		return g.refuse(PathConflict, name, "it lies behind a symbolic link of the archive")
	case known && (before >= 0 || before == omitted):
		return g.refuse(PathConflict, name, "it lies below a file of the archive")
	case known:
		return nil
	}
	if s.twin(dir, sum) {
		return g.refuse(Duplicate, name, "one of its directories differs from an earlier entry only in the case of its letters")
	}
	if err := g.room(name); err != nil {
		return err
	}
	s.kinds[sum] = implied
	return nil
}

// seen knows the names that an archive has had, by hashes of 128 bits with seeds that
// nobody can guess.
type seen struct {
	seeds [2]maphash.Seed
	kinds map[[2]uint64]int64
	folds map[[2]uint64][2]uint64 // the hash of a name without case, and with; nil: twins may be
	dir   string                  // that the last name lies in, and so do all above it

	targets map[[2]uint64]string // of symbolic links, by their names
	kept    int                  // what they take
}

// maxTargets bounds the bytes of targets that are kept, at so many for each beside itself.
const (
	maxTargets  = 32 << 20
	targetBytes = 64
)

// What seen says of a name; that of a file is its size.
const (
	implied int64 = -1 - iota // a directory that only other names speak of
	stated                    // a directory
	linked                    // a symbolic link, taken or passed over
	omitted                   // something else that was passed over
)

func newSeen(caseTwins bool) *seen {
	s := &seen{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, kinds: make(map[[2]uint64]int64)}
	if caseTwins {
		s.folds = make(map[[2]uint64][2]uint64)
	}
	return s
}

func (s *seen) hash(name string) [2]uint64 {
	return [2]uint64{maphash.String(s.seeds[0], name), maphash.String(s.seeds[1], name)}
}

// twin notes a new name and reports whether another one differs from it only in case.
func (s *seen) twin(name string, sum [2]uint64) bool {
	if s.folds == nil {
		return false
	}
	folded := s.hash(folded(name))
	before, known := s.folds[folded]
	s.folds[folded] = sum
	return known && before != sum
}

// folded is a name in which letters that differ only in case are one and the same. Bytes
// that are not UTF-8 are no letters, and stay what they are.
func folded(name string) string {
	out := make([]byte, 0, len(name))
	for rest := name; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			out = append(out, rest[0])
		} else {
			out = utf8.AppendRune(out, fold(r))
		}
		rest = rest[size:]
	}
	return string(out)
}

// fold returns one and the same letter for all that differ only in case.
func fold(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// file returns the size of an earlier regular file, or why there is none.
func (s *seen) file(name string) (size int64, wrong string) {
	if detail := wrongPath(name); detail != "" {
		return 0, "its target: " + detail
	}
	size, known := s.kinds[s.hash(name)]
	switch {
	case !known:
		return 0, "its target is no earlier entry"
	case size < 0:
		return 0, "its target is no regular file"
	}
	return size, ""
}

// wrongPath says what is wrong with the path of an entry.
func wrongPath(p string) string {
	switch {
	case p == "":
		return "an empty path"
	case p[0] == '/':
		return "an absolute path"
	case len(p) > spec.MaxPathBytes:
		return fmt.Sprintf("a path of %d bytes, at most %d are possible", len(p), spec.MaxPathBytes)
	case strings.IndexByte(p, 0) >= 0:
		return "a NUL byte"
	}
	for elem := range strings.SplitSeq(p, "/") {
		switch {
		case elem == "":
			return "an empty element"
		case elem == "." || elem == "..":
			return "an element " + elem
		case len(elem) > maxElement:
			return fmt.Sprintf("an element of %d bytes, at most %d are possible", len(elem), maxElement)
		}
	}
	return ""
}

// Escapes reports whether a symbolic link at path would be refused for its target: one
// that may lead above the top of the archive.
func Escapes(path, target string) bool { return wrongTarget(path, target) != "" }

// wrongTarget says what is wrong with the target of a symbolic link.
//
// A ".." leads up from where the names before it have led, and what those are other
// entries decide, later ones too: behind a name there is none. Then no links, however they
// lead through each other, lead out. Whoever resolves a path stands, by induction over the
// elements that are looked up, in a directory of the tree. A name leads to something in
// that directory; if it is a link, its target is what comes next. The ".." at a target's
// beginning lead up from the directory that the link lies in, which is real, and so are all
// above it: entries behind links are refused, by the archive's names here and by those of
// the tree where it lands. They are no more than the link is deep, so they end in the tree.
func wrongTarget(path, target string) string {
	switch {
	case target == "":
		return "an empty target"
	case target[0] == '/':
		return "an absolute target"
	case len(target) > spec.MaxPathBytes:
		return fmt.Sprintf("a target of %d bytes, at most %d are possible", len(target), spec.MaxPathBytes)
	case strings.IndexByte(target, 0) >= 0:
		return "a target with a NUL byte"
	}
	depth, named := strings.Count(path, "/"), false
	for elem := range strings.SplitSeq(target, "/") {
		switch elem {
		case "", ".":
		case "..":
			if named {
				return "a target that leads up behind a name, which may be a link"
			}
			if depth--; depth < 0 {
				return "a target outside of the archive"
			}
		default:
			named = true
		}
	}
	return ""
}
