package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-dev/berth/spec"
)

// maxHeld is how many names a walk has in memory at most.
const maxHeld = 2 << 20

// errStop ends a walk whose caller has had enough.
var errStop = errors.New("stop")

// walker reads the directories of one walk.
type walker struct {
	ctx  context.Context // of the call that walks
	fsys FS
	held int // names in memory
}

// entry is what a walk knows of a file.
type entry struct {
	name string
	mode fs.FileMode // its type bits
}

// names returns the entries of a directory in the order of their bytes.
func (w *walker) names(dir string, o NamesOptions) ([]entry, error) {
	var out []entry
	for info, err := range Names(w.ctx, w.fsys, dir, o) {
		if err != nil {
			w.held -= len(out)
			return nil, err
		}
		if w.held++; w.held > maxHeld {
			return nil, &spec.Error{Path: dir, Code: spec.CodeTooLarge, Err: fmt.Errorf("more than %d names at once", maxHeld)}
		}
		out = append(out, entry{info.Name, info.Mode.Type()})
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// find returns where name is among sorted entries.
func find(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// pass returns nil for an error that a walk passes over: it is about one file, which
// has vanished, cannot be read or has become something else.
func pass(err error) error {
	switch spec.CodeOf(err) {
	case spec.CodeFileNotFound, spec.CodeNotDirectory, spec.CodeIsDirectory, spec.CodeNotRegular, spec.CodePermission, spec.CodeInvalidPath:
		return nil
	}
	// Where the files are, what the kernel says is about the one file too (a bad
	// block, a file system whose server is gone), unless the process is at its end.
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.EMFILE && errno != syscall.ENFILE && errno != syscall.ENOMEM {
		return nil
	}
	return err
}

// Names yields the entries of a directory as Namer says.
//
// Over an FS that is no Namer it is List, and with o.NoFollow it looks first: a link
// that takes the directory's place right then is followed.
func Names(ctx context.Context, fsys FS, dir string, o NamesOptions) iter.Seq2[Info, error] {
	if n, ok := fsys.(Namer); ok {
		return n.Names(ctx, dir, o)
	}
	if !o.NoFollow {
		return fsys.List(ctx, dir)
	}
	return func(yield func(Info, error) bool) {
		info, err := fsys.Stat(ctx, dir, StatOptions{})
		if err == nil && !info.IsDir() {
			err = &spec.Error{Path: dir, Code: spec.CodeNotDirectory}
		}
		if err != nil {
			yield(Info{}, err)
			return
		}
		for info, err := range fsys.List(ctx, dir) {
			if !yield(info, err) {
				return
			}
		}
	}
}

// Resolve returns the absolute name of what name leads to, as Resolver says. There is
// no other way to do it: Resolve of an FS that is no Resolver is CodeUnsupported.
func Resolve(ctx context.Context, fsys FS, name string) (string, error) {
	if r, ok := fsys.(Resolver); ok {
		return r.Resolve(ctx, name)
	}
	return "", &spec.Error{Path: name, Code: spec.CodeUnsupported}
}

// join puts a name behind a directory's.
func join(dir, name string) string {
	switch {
	case dir == "" || dir == "." && !strings.HasPrefix(name, "/"):
		return name
	case name == "":
		return dir
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}
