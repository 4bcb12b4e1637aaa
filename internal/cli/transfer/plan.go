package transfer

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Source is what is copied.
type Source struct {
	side side
	name string
	base string
	info files.Info
}

// Base is the name that the source has in a directory that it is copied into; "." if
// that is the directory's own.
func (s *Source) Base() string { return s.base }

// IsDir reports whether the source is a directory.
func (s *Source) IsDir() bool { return s.info.IsDir() }

// Target is where something is copied to.
type Target struct {
	side target
	name string
	// dir: an existing directory.
	dir bool
}

// IsDir reports whether the target is a directory that exists.
func (t *Target) IsDir() bool { return t.dir }

// entry is a file below the source.
type entry struct {
	rel     string // "" is the source itself
	to      string
	info    files.Info
	old     *files.Info
	implied bool // a directory that is made with what is in it
	within  bool // it is in a directory that is made for this copy
	anew    bool // the whole tree is, so that nothing of others is in it
}

// The bounds of what a place can have us hold in memory, beside MaxEntries.
const (
	maxNameBytes = 512 << 20
	maxDepth     = 1000
)

// Room is how much of a place may still be held in memory.
type Room struct{ entries, bytes int }

// NewRoom returns room for MaxEntries files.
func NewRoom() *Room { return &Room{entries: MaxEntries, bytes: maxNameBytes} }

// list makes room for an entry of a directory.
func (r *Room) list(info *files.Info) bool {
	r.entries--
	return r.entries >= 0 && r.take(info.Name, info.Target)
}

// take makes room for names.
func (r *Room) take(names ...string) bool {
	for _, name := range names {
		r.bytes -= len(name)
	}
	return r.bytes >= 0
}

// planner is one Prepare under way.
type planner struct {
	ctx  context.Context
	o    Options
	s    *Source
	t    target
	p    *Plan
	room *Room
	anew bool // nothing of the tree is there yet
}

// Prepare looks at what copying s to t means and refuses what cannot be done. It writes
// nothing. Into an existing directory the source comes under its own name.
func Prepare(ctx context.Context, s *Source, t *Target, o Options) (*Plan, error) {
	name := t.name
	if t.dir {
		name = join(name, s.base)
	}
	p := &planner{ctx: ctx, o: o, s: s, t: t.side, p: &Plan{from: s.side, to: t.side, Target: name}, room: NewRoom()}
	if b := path.Base(name); b != "." && b != "/" && b != ".." {
		if err := t.side.check(b); err != nil {
			return nil, err
		}
	}
	top := entry{to: name, info: s.info}
	existing, err := t.side.Stat(ctx, name, s.info.IsDir() && t.dir && s.base == ".")
	switch {
	case err == nil:
		top.old = &existing
	case spec.CodeOf(err) != spec.CodeFileNotFound:
		return nil, err
	}
	p.anew = top.old == nil && s.info.IsDir()
	if err := p.add(top); err != nil {
		return nil, err
	}
	if s.side == side(t.side) {
		p.p.inPlace = p.insideOne(top)
	}
	return p.p, nil
}

// insideOne returns how a place copies by itself. What could be in the way has been
// looked at; a single file is checked by the place too, atomically.
func (p *planner) insideOne(top entry) func(context.Context) error {
	place := p.t.(*Place)
	o := files.CopyOptions{Recursive: true, Overwrite: p.o.Force || top.old != nil && top.info.IsDir()}
	return func(ctx context.Context) error {
		name := p.s.name
		if p.s.base == "." { // it has no name of its own to be copied by
			var err error
			if name, err = files.Resolve(ctx, place.FS, name); err != nil {
				return err
			}
		}
		return files.Copy(ctx, place.FS, name, top.to, o)
	}
}

// add takes one entry, and of a directory all that is in it, into the plan.
func (p *planner) add(e entry) error {
	from := join(p.s.name, e.rel)
	if !p.room.take(from, e.rel, e.to) {
		return tooMany(p.s.side.path(p.s.name))
	}
	if strings.Count(e.rel, "/") > maxDepth {
		return failed(p.from(entry{rel: e.rel[:64]}), spec.CodeTooLarge, fmt.Sprintf("directories more than %d deep", maxDepth))
	}
	switch e.info.Mode.Type() {
	case 0:
		if err := p.inTheWay(e); err != nil {
			return err
		}
		p.p.info.Files++
		p.p.info.Bytes += e.info.Size
		p.p.files = append(p.p.files, item{from: from, to: e.to, mode: e.info.Mode.Perm(), old: e.old, fresh: e.within, force: p.o.Force})
		return nil
	case fs.ModeDir:
		return p.addDir(e)
	case fs.ModeSymlink:
		return p.addLink(e)
	}
	return p.leaveOut(e, spec.CodeNotRegular, "a FIFO, a device or a socket")
}

// from is how messages call what is copied.
func (p *planner) from(e entry) string { return p.s.side.path(join(p.s.name, e.rel)) }

// inTheWay refuses what cannot be replaced by a file or a link.
func (p *planner) inTheWay(e entry) error {
	if e.old == nil {
		return nil
	}
	switch mode := e.old.Mode; {
	case mode.IsDir():
		return failed(p.t.path(e.to), spec.CodeIsDirectory, "")
	case !mode.IsRegular() && mode.Type() != fs.ModeSymlink:
		return failed(p.t.path(e.to), spec.CodeNotReplaceable, "")
	case !p.o.Force:
		return &spec.Error{Op: "copy", Path: p.t.path(e.to), Code: spec.CodeExists, Hint: "--force replaces files that exist"}
	}
	return nil
}

func (p *planner) addDir(e entry) error {
	if e.old != nil && !e.old.IsDir() {
		return failed(p.t.path(e.to), spec.CodeNotDirectory, "")
	}
	entries, err := p.s.side.List(p.ctx, join(p.s.name, e.rel), p.room)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b files.Info) int { return strings.Compare(a.Name, b.Name) })
	existing := map[string]*files.Info{}
	if e.old != nil && len(entries) > 0 {
		if existing, err = p.existing(e.to, entries); err != nil {
			return err
		}
	}
	at, files, fresh := len(p.p.dirs), len(p.p.files), e.old == nil
	p.p.info.Directories++
	if fresh {
		p.p.dirs = append(p.p.dirs, e)
	}
	for i, info := range entries {
		if err := p.checkName(e, info.Name, i > 0 && entries[i-1].Name == info.Name); err != nil {
			return err
		}
		if err := p.add(entry{rel: join(e.rel, info.Name), to: join(e.to, info.Name), info: info, old: existing[info.Name], within: fresh}); err != nil {
			return err
		}
	}
	if fresh {
		p.p.dirs[at].implied = p.t.traits().parents && len(p.p.files) > files
	}
	return nil
}

// checkName refuses what is no name of a file, which only a place that lies would give,
// and what cannot be one where it is to go.
func (p *planner) checkName(dir entry, name string, twice bool) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || twice {
		return failed(p.from(dir), spec.CodeInternal, "the directory holds what is no name of a file, or one twice")
	}
	return p.t.check(name)
}

// existing describes those of entries that are in a directory of the target already.
func (p *planner) existing(dir string, entries []files.Info) (map[string]*files.Info, error) {
	found := map[string]*files.Info{}
	const few = 8 // so many are asked for one by one
	if len(entries) <= few {
		for _, e := range entries {
			info, err := p.t.Stat(p.ctx, join(dir, e.Name), false)
			switch {
			case err == nil:
				found[e.Name] = &info
			case spec.CodeOf(err) != spec.CodeFileNotFound:
				return nil, err
			}
		}
		return found, nil
	}
	have, err := p.t.List(p.ctx, dir, NewRoom())
	for i := range have {
		found[have[i].Name] = &have[i]
	}
	return found, err
}

func (p *planner) addLink(e entry) error {
	if p.s.side != side(p.t) {
		e.anew = p.anew
		leadsOut := p.t.traits().leadsOut
		if leadsOut == nil {
			return p.leaveOut(e, spec.CodeUnsupported, "a symbolic link, which a sandbox cannot be given")
		}
		if !stays(e.rel, e.info.Target) || !e.anew && leadsOut(e) {
			return p.leaveOut(e, spec.CodeUnsupported, "a symbolic link that may lead out of what is copied")
		}
	}
	if err := p.inTheWay(e); err != nil {
		return err
	}
	p.p.info.Links++
	p.p.links = append(p.p.links, e)
	return nil
}

// leaveOut passes over what cannot be copied, if that is wanted. A place that copies by
// itself leaves nothing out.
func (p *planner) leaveOut(e entry, code spec.Code, why string) error {
	name := p.from(e)
	if p.o.Skip == nil || e.rel == "" || p.s.side == side(p.t) {
		err := &spec.Error{Op: "copy", Path: name, Code: code, Err: errorText(why)}
		if e.rel != "" && p.s.side != side(p.t) {
			err.Hint = "--skip-special leaves out what cannot be copied"
		}
		return err
	}
	p.p.info.Skipped++
	p.o.Skip(name, why)
	return nil
}

// stays reports whether a link at rel, all of whose parents are real directories, leads
// to something below the top whatever other links there are: up by no more than its
// depth, and then only down. A ".." behind another element could come after a link.
func stays(rel, to string) bool {
	if to == "" || strings.ContainsAny(to, "\x00\\") || to[0] == '/' {
		return false
	}
	depth, down := strings.Count(rel, "/"), false
	for element := range strings.SplitSeq(to, "/") {
		switch element {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return true
}

// errorText is a cause in words.
type errorText string

func (e errorText) Error() string { return string(e) }
