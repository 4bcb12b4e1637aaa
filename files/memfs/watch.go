package memfs

import (
	"context"
	"maps"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/internal/feed"
	"github.com/berth-dev/berth/spec"
)

var _ files.Watcher = (*FS)(nil)

// watch is one watch under way.
type watch struct {
	out       *feed.Queue
	top       *node // the directory that is watched, or the one that holds the file
	base      string
	recursive bool
}

// Watch implements files.Watcher. Of a directory that is removed with all in it only
// itself is told.
func (f *FS) Watch(ctx context.Context, name string, o files.WatchOptions, ready func(), tell func(files.WatchEvent) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return fail(name, err)
	}
	w := &watch{out: feed.New(), recursive: o.Recursive}
	where, err := f.begin(w, name)
	if err != nil {
		return fail(name, err)
	}
	defer f.end(w)
	tell = short(tell)
	if len(o.Exclude) > 0 || o.Gitignore {
		s, err := f.newSieve(ctx, where, o)
		if err != nil {
			return fail(name, err)
		}
		s.tell, tell = tell, s.take
	}
	if ready != nil {
		ready()
	}
	var told error
	err = w.out.Tell(ctx, func(e files.WatchEvent) error {
		told = tell(e)
		return told
	})
	if told != nil || ctx.Err() != nil {
		return err
	}
	return fail(name, err)
}

// short makes what has a path that is too long an overflow.
func short(tell func(files.WatchEvent) error) func(files.WatchEvent) error {
	return func(e files.WatchEvent) error {
		if max(len(e.Path), len(e.OldPath)) > spec.MaxPathBytes {
			e = files.WatchEvent{Kind: files.WatchOverflow, Path: "."}
		}
		return tell(e)
	}
}

// begin finds what is to be watched, and returns its absolute name.
func (f *FS) begin(w *watch, name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.existing(name, true)
	if err != nil {
		return "", err
	}
	if w.top = n; !n.isDir() {
		w.top, w.base = n.parent, n.name
	}
	f.watches[w] = struct{}{}
	return n.path(), nil
}

func (f *FS) end(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, w)
}

// sees returns what an entry of dir is called by whoever watches; !ok: it does not lie in
// what is watched.
func (w *watch) sees(dir *node, name string) (path string, ok bool) {
	switch {
	case dir == nil:
		return "", false
	case w.base != "":
		return ".", dir == w.top && name == w.base
	case dir.entries[name] == w.top:
		return ".", true
	case dir == w.top:
		return name, true
	case !w.recursive || !dir.within(w.top):
		return "", false
	}
	for path = name; dir != w.top; dir = dir.parent {
		path = dir.name + "/" + path
	}
	return path, true
}

// tell tells of a change to n where it lies. f.mu is held, as by all that change f.
func (f *FS) tell(kind files.WatchKind, n *node) {
	for w := range f.watches {
		if path, ok := w.sees(n.parent, n.name); ok {
			w.out.Put(files.WatchEvent{Kind: kind, Path: path, Dir: n.isDir()})
			if kind == files.WatchRemoved && w.base != "" {
				w.out.End(errCode(spec.CodeFileNotFound))
			}
		}
	}
}

// lose ends the watches of what goes with n.
func (f *FS) lose(n *node) {
	for w := range f.watches {
		if w.top.within(n) {
			w.out.Put(files.WatchEvent{Kind: files.WatchRemoved, Path: ".", Dir: w.base == ""})
			w.out.End(errCode(spec.CodeFileNotFound))
		}
	}
}

// tellMoved tells that n, which was from, lies elsewhere now.
func (f *FS) tellMoved(from spot, n *node) {
	for w := range f.watches {
		oldPath, left := w.sees(from.dir, from.base)
		newPath, came := w.sees(n.parent, n.name)
		switch {
		case n == w.top || left && w.base != "":
			w.out.Put(files.WatchEvent{Kind: files.WatchRemoved, Path: ".", Dir: n.isDir()})
			w.out.End(errCode(spec.CodeFileNotFound))
		case left && came:
			w.out.Put(files.WatchEvent{Kind: files.WatchRenamed, Path: newPath, OldPath: oldPath, Dir: n.isDir()})
		case left:
			w.out.Put(files.WatchEvent{Kind: files.WatchRemoved, Path: oldPath, Dir: n.isDir()})
		case came:
			w.found(newPath, n)
		}
	}
}

// found tells of what has come with all that is in it.
func (w *watch) found(path string, n *node) {
	w.out.Put(files.WatchEvent{Kind: files.WatchCreated, Path: path, Dir: n.isDir()})
	if !w.recursive {
		return
	}
	for name, child := range n.entries {
		w.found(path+"/"+name, child)
	}
}

// sieve leaves out of what is told what a watch is not to tell.
type sieve struct {
	ctx   context.Context // of the call that watches
	f     *FS
	where string // what is watched
	tell  func(files.WatchEvent) error
	all   bool // everything is left out
	top   files.Filter
	dirs  map[string]files.Filter // that have been met, by path
}

func (f *FS) newSieve(ctx context.Context, where string, o files.WatchOptions) (*sieve, error) {
	s := &sieve{ctx: ctx, f: f, where: where, dirs: map[string]files.Filter{}}
	var err error
	if s.top, s.all, err = files.NewFilter(ctx, f, where, o.Exclude, o.Gitignore); err == nil {
		err = s.top.Load("")
	}
	return s, err
}

// skips reports whether a path is left out, or a directory above it is.
func (s *sieve) skips(path string, dir bool) bool {
	filter := s.top
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		last := i == len(path)
		below, skip := filter.Step(path[:i], dir || !last)
		if skip || last {
			return skip
		}
		if met, ok := s.dirs[path[:i]]; ok {
			below = met
		} else {
			_ = below.Load(path[:i]) // too large: it says nothing
			s.dirs[path[:i]] = below
		}
		filter = below
	}
	return false
}

// take tells what is left of an event.
func (s *sieve) take(e files.WatchEvent) error {
	switch {
	case e.Path == ".":
		return s.tell(e)
	case s.all:
		return nil
	case e.Kind == files.WatchRenamed:
		if oldSkip, newSkip := s.skips(e.OldPath, e.Dir), s.skips(e.Path, e.Dir); !e.Dir && !oldSkip && !newSkip {
			return s.tell(e)
		}
		// What is left out of a directory depends on its name.
		if err := s.take(files.WatchEvent{Kind: files.WatchRemoved, Path: e.OldPath, Dir: e.Dir}); err != nil {
			return err
		}
		return s.found(e.Path, e.Dir)
	case s.skips(e.Path, e.Dir):
		return nil
	case e.Kind == files.WatchRemoved && e.Dir:
		maps.DeleteFunc(s.dirs, func(p string, _ files.Filter) bool { return strings.HasPrefix(p+"/", e.Path+"/") })
	}
	return s.tell(e)
}

// found tells of what is under a path now.
func (s *sieve) found(path string, dir bool) error {
	if s.skips(path, dir) {
		return nil
	}
	err := s.tell(files.WatchEvent{Kind: files.WatchCreated, Path: path, Dir: dir})
	if err != nil || !dir {
		return err
	}
	var below []files.WatchEvent
	s.f.mu.RLock()
	n, err := s.f.existing(s.where+"/"+path, false)
	if err == nil {
		below = n.below(path, nil)
	}
	s.f.mu.RUnlock()
	if spec.CodeOf(err) == spec.CodeInvalidPath {
		return s.tell(files.WatchEvent{Kind: files.WatchOverflow, Path: "."})
	}
	for _, e := range below { // nothing, if it is gone again, of which there will be word
		if !s.skips(e.Path, e.Dir) {
			if err := s.tell(e); err != nil {
				return err
			}
		}
	}
	return s.ctx.Err()
}

// below appends that what is in n, which is called path, is there.
func (n *node) below(path string, all []files.WatchEvent) []files.WatchEvent {
	for name, child := range n.entries {
		p := path + "/" + name
		all = child.below(p, append(all, files.WatchEvent{Kind: files.WatchCreated, Path: p, Dir: child.isDir()}))
	}
	return all
}
