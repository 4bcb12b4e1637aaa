package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// Stats say what an archive holds, or how much of it has landed.
type Stats struct {
	Files int   `json:"files"` // regular files, a hard link being one
	Dirs  int   `json:"dirs"`  // but not the tree's own
	Links int   `json:"links"` // symbolic ones
	Bytes int64 `json:"bytes"` // in the files
	// Skipped are what an export left out: FIFOs, sockets and devices, and links
	// under OmitEscapingLinks, each name counted. What was excluded does not count.
	Skipped int `json:"skipped,omitempty"`
}

// Entries are the files, directories and links.
func (s Stats) Entries() int { return s.Files + s.Dirs + s.Links }

// Limits bound an archive: FileBytes (256 MiB), ArchiveBytes (1 GiB, headers and padding
// included, a hard link counted like a copy), HeaderBytes (1 MiB, which is also the most)
// and Entries (1,000,000, with directories that only other names imply). 0 stands for the
// default in parentheses. Where one is passed it is CodeTooLarge.
type Limits = tarstream.Limits

// RefusedError says which entry of an archive is refused and why: the cause of a
// *spec.Error with CodeInvalid, or with CodeTooLarge for a limit.
type RefusedError = tarstream.RefusedError

// Reason is why an archive is refused.
type Reason = tarstream.Reason

// The reasons.
const (
	BadHeader       = tarstream.BadHeader
	Truncated       = tarstream.Truncated
	BadPath         = tarstream.BadPath
	UnsupportedType = tarstream.UnsupportedType
	FileTooLarge    = tarstream.FileTooLarge
	ArchiveTooLarge = tarstream.ArchiveTooLarge
	BadSymlink      = tarstream.BadSymlink
	BadHardlink     = tarstream.BadHardlink
	Duplicate       = tarstream.Duplicate
	PathConflict    = tarstream.PathConflict
)

// ExportOptions modify Export.
type ExportOptions struct {
	// Exclude and Gitignore leave out what they do in files.GlobOptions.
	Exclude   []string
	Gitignore bool
	// ZeroTimes makes the archive depend on nothing but names, modes and contents.
	ZeroTimes bool
	// OmitEscapingLinks leaves out symbolic links that may lead out of the tree, as
	// the package comment says, and counts them as skipped. Otherwise the first one
	// fails the export as BadSymlink, since Import would refuse it.
	OmitEscapingLinks bool
	Limits            Limits
	// Unchecked leaves it to who reads the archive to refuse what it must not hold.
	Unchecked bool
}

// ImportOptions modify Import.
type ImportOptions struct {
	// Empty refuses a directory that holds anything with CodeExists.
	Empty bool
	// RefuseCaseTwins refuses names that differ only in the case of their letters as
	// Duplicate: some file systems take them for one.
	RefuseCaseTwins bool
	Limits          Limits
}

// Exporter is an FS that exports in place, as Export says.
type Exporter interface {
	ExportTree(ctx context.Context, root string, w io.Writer, o ExportOptions) (Stats, error)
}

// Importer is an FS that imports in place, as Import says; its errors say what has landed.
type Importer interface {
	ImportTree(ctx context.Context, root string, r io.Reader, o ImportOptions) (Stats, error)
}

// Rooter is an FS that can keep to one directory.
type Rooter interface {
	// OpenRoot returns the files below dir, as if it were the root of everything, in
	// which no name leads through a symbolic link, whatever changes meanwhile: a
	// link within a name is CodeNotDirectory. dir itself may be one. The caller
	// closes it.
	OpenRoot(ctx context.Context, dir string) (files.FS, io.Closer, error)
}

// Export writes the directory root as an archive to w, entries in the order of the bytes
// of their names, each directory before what is in it. "" is the workdir; root itself is
// no entry, and may be a link to a directory.
//
// Without an error the archive is whole and w has all of it; with one, what w has got does
// not pass for whole. A directory or file that cannot be read fails the export; what
// vanishes while it is walked is left out. Cancelling ctx ends it, but no Write to w that
// blocks.
func Export(ctx context.Context, fsys files.FS, root string, w io.Writer, o ExportOptions) (Stats, error) {
	root = orWorkdir(root)
	if err := validate(root, o.Limits); err != nil {
		return Stats{}, err
	}
	if err := (files.GlobOptions{Exclude: o.Exclude}).Validate(); err != nil {
		return Stats{}, at(err, root)
	}
	if e, ok := fsys.(Exporter); ok {
		return e.ExportTree(ctx, root, w, o)
	}
	stats, err := export(ctx, fsys, root, w, o)
	return stats, at(err, root)
}

// Import puts what the archive r holds into the directory root, which is made if it is
// missing. "" is the workdir; root itself may be a link to a directory.
//
// A file or link that has the name of one of the archive's is replaced, each atomically;
// directories are merged. A directory where the archive has a file, something else where
// it has a directory, and a link in the middle of a path, are refused. Modes are masked to
// the permission bits; a directory gets its own when all is in it. Directories whose modes
// keep their owner from filling them may have names of 32 MiB in all; more are refused as
// ArchiveTooLarge.
//
// The archive is checked as it comes, so that an error may find a part of it landed. The
// returned Stats, and the error, say how much: nothing is half imported without saying so,
// and no single file is. Cancelling ctx ends it, but no Read of r that blocks.
func Import(ctx context.Context, fsys files.FS, root string, r io.Reader, o ImportOptions) (Stats, error) {
	root = orWorkdir(root)
	if err := validate(root, o.Limits); err != nil {
		return Stats{}, err
	}
	if i, ok := fsys.(Importer); ok {
		return i.ImportTree(ctx, root, r, o)
	}
	stats, err := importTree(ctx, fsys, root, r, o)
	return stats, Landed(at(err, root), stats)
}

// validate checks what does not depend on a place.
func validate(root string, l Limits) error {
	err := spec.ValidatePath(root)
	if err == nil {
		err = l.Validate()
	}
	return at(err, root)
}

func orWorkdir(root string) string {
	if root == "" {
		return "."
	}
	return root
}

// at names the tree that err is about.
func at(err error, root string) error { return spec.Wrap(err, "", "", "", root) }

// Landed adds to the text of err how much of an archive has landed.
func Landed(err error, s Stats) error {
	var e *spec.Error
	if n := s.Entries(); n > 0 && errors.As(err, &e) {
		c := *e
		c.Err = fmt.Errorf("%w (%d entries have landed)", cause(e), n)
		return &c
	}
	return err
}

// cause is what e says beside its code.
func cause(e *spec.Error) error {
	if e.Err == nil {
		return errors.New(e.Code.Info().Text)
	}
	return e.Err
}

// about makes err, which happened at an entry of a tree, one about the tree that says so.
func about(err error, root, name string) error {
	if e, ok := err.(*spec.Error); ok { //nolint:errorlint // the outermost one is about the entry
		const most = 256
		return &spec.Error{Path: root, Code: e.Code, Hint: e.Hint, Err: fmt.Errorf("%q: %w", name[:min(len(name), most)], cause(e))}
	}
	return err
}

// tree is a directory that is worked on.
type tree struct {
	ctx  context.Context // of the call
	fsys files.FS        // where names below the directory begin
	dir  string          // before them; "": fsys has no other files
	root string          // as the caller calls it
	sure string          // the last directory that was found to be none but that
}

// open returns the tree in root, and what lets go of it.
func open(ctx context.Context, fsys files.FS, root string) (*tree, func(), error) {
	if r, ok := fsys.(Rooter); ok {
		rooted, closer, err := r.OpenRoot(ctx, root)
		if err == nil {
			return &tree{ctx: ctx, fsys: rooted, root: root}, func() { _ = closer.Close() }, nil
		}
		if spec.CodeOf(err) != spec.CodeUnsupported {
			return nil, nil, err
		}
	}
	info, err := fsys.Stat(ctx, root, files.StatOptions{Follow: true})
	if err == nil && !info.IsDir() {
		err = &spec.Error{Path: root, Code: spec.CodeNotDirectory}
	}
	return &tree{ctx: ctx, fsys: fsys, dir: strings.TrimSuffix(root, "/") + "/", root: root}, func() {}, err
}

// name is what fsys calls an entry. Where nothing else keeps it in the tree, the
// directories that it lies in are looked at.
func (t *tree) name(entry string) (string, error) {
	dir := entry[:max(strings.LastIndexByte(entry, '/'), 0)]
	if t.dir == "" || dir == t.sure {
		return t.dir + entry, nil
	}
	for i := range len(dir) + 1 {
		if i == 0 || i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := t.fsys.Stat(t.ctx, t.dir+dir[:i], files.StatOptions{})
		if spec.CodeOf(err) == spec.CodeFileNotFound {
			return t.dir + entry, nil // there is no link, and what is made there is none
		}
		if err == nil && !info.IsDir() {
			err = spec.New(spec.CodeNotDirectory, "a link or a file stands in the way")
		}
		if err != nil {
			return "", err
		}
	}
	t.sure = strings.Clone(dir)
	return t.dir + entry, nil
}
