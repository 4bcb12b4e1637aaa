package files

import (
	"context"

	"github.com/berth-dev/berth/spec"
)

// Watcher is an FS that tells of changes.
type Watcher interface {
	// Watch calls tell with what changes in a directory, or to one file, from the moment
	// it has called ready, which may be nil: never concurrently, in the order in which it
	// was seen. It returns tell's error, the context's, CodeFileNotFound once what is
	// watched is gone itself (after its last event), or how the place was lost.
	// Nothing that lasts is missed: what has appeared in a directory before that could be
	// watched is told as created. What is there for a moment only may be. Where more
	// happens than the place keeps, where a path has more than spec.MaxPathBytes, or the
	// place was out of reach, a WatchOverflow says that events are missing and what is
	// watched must be read again; the watch goes on. A tell that is slow is an overflow in
	// the end and never memory. What takes a name is told as created, also where it replaces
	// what had it. A symbolic link is not followed, but as name itself. Where the kernel's
	// watches do not suffice the error is CodeUnavailable with a hint, before ready; later
	// it is an overflow, and another one once they do.
	Watch(ctx context.Context, name string, o WatchOptions, ready func(), tell func(WatchEvent) error) error
}

// WatchOptions say what is watched.
type WatchOptions struct {
	// Recursive watches all directories below, also those that are made meanwhile. A
	// directory costs a watch of the kernel, a file none.
	Recursive bool
	// Exclude are patterns as in GlobOptions: what matches is not told, and a directory
	// that does is not watched. With it or Gitignore a renamed directory is told as removed
	// and created.
	Exclude []string
	// Gitignore leaves out what git would ignore, as in GlobOptions, by the rules as they
	// were when the directory was met.
	Gitignore bool
}

// WatchKind says what happened.
type WatchKind string

// The kinds of changes.
const (
	WatchCreated  WatchKind = "created"  // something has appeared under the name, moved in from elsewhere too
	WatchWritten  WatchKind = "written"  // the content has changed; several writes may be one
	WatchMode     WatchKind = "mode"     // mode, owner or times have
	WatchRemoved  WatchKind = "removed"  // it is gone, moved out of what is watched too
	WatchRenamed  WatchKind = "renamed"  // both names lie in what is watched
	WatchOverflow WatchKind = "overflow" // events are missing
)

// WatchEvent is one change.
type WatchEvent struct {
	Kind WatchKind
	// Path is relative to what is watched, "." is itself; of a WatchRenamed it is the new
	// one. OldPath is the old one. Names are bytes.
	Path, OldPath string
	// Dir: it is, or was, a directory.
	Dir bool
}

// Watch tells of changes; Watcher says what is promised. An FS that is no Watcher is
// CodeUnsupported.
func Watch(ctx context.Context, fsys FS, name string, o WatchOptions, ready func(), tell func(WatchEvent) error) error {
	if w, ok := fsys.(Watcher); ok {
		return w.Watch(ctx, name, o, ready, tell)
	}
	return spec.New(spec.CodeUnsupported, "these files cannot be watched")
}
