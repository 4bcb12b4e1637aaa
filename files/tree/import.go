package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// importTree reads the archive and makes what is in it.
func importTree(ctx context.Context, fsys files.FS, root string, r io.Reader, o ImportOptions) (Stats, error) {
	if err := prepare(ctx, fsys, root, o.Empty); err != nil {
		return Stats{}, err
	}
	t, done, err := open(ctx, fsys, root)
	if err != nil {
		return Stats{}, err
	}
	defer done()
	im := &importer{tree: t, in: tarstream.NewReader(r, tarstream.Options{Limits: o.Limits, CaseTwins: o.RefuseCaseTwins})}
	var counts tarstream.Counts
	for {
		if err = ctx.Err(); err != nil {
			break
		}
		var h *tarstream.Header
		if h, err = im.in.Next(); err != nil {
			err = unreadable(err)
			break
		}
		if err = im.entry(h); err != nil {
			err = about(err, root, h.Path)
			break
		}
		counts.Add(h)
	}
	if err == io.EOF {
		err = im.finish()
	}
	return statsOf(counts, 0), err
}

// unreadable makes err, if it is the archive's source's own, one that says so.
func unreadable(err error) error {
	var known *spec.Error
	if err == io.EOF || errors.As(err, &known) || spec.CodeOf(err) == "" {
		return err
	}
	return &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the archive could not be read: %w", err)}
}

// prepare makes the directory, or looks what is in it.
func prepare(ctx context.Context, fsys files.FS, root string, empty bool) error {
	info, err := fsys.Stat(ctx, root, files.StatOptions{Follow: true})
	switch {
	case spec.CodeOf(err) == spec.CodeFileNotFound:
		return fsys.Mkdir(ctx, root, files.MkdirOptions{Parents: true})
	case err != nil:
		return err
	case !info.IsDir():
		return &spec.Error{Path: root, Code: spec.CodeNotDirectory}
	case !empty:
		return nil
	}
	for _, err := range files.Names(ctx, fsys, root, files.NamesOptions{}) {
		if err == nil {
			err = &spec.Error{Path: root, Code: spec.CodeExists, Err: errNotEmpty}
		}
		return err
	}
	return nil
}

var errNotEmpty = errors.New("the directory is not empty")

// importer is one import under way.
type importer struct {
	*tree
	in   *tarstream.Reader
	late []lateDir // directories that get their modes in the end
	kept int       // bytes that these take
}

// maxLate bounds the directories that get their modes in the end by their names, with so
// many bytes for each beside.
const (
	maxLate   = 32 << 20
	lateBytes = 48
)

// lateDir is a directory that could not be filled if it had its mode.
type lateDir struct {
	name string
	mode fs.FileMode
}

// ownerAll are the rights without which the owner of a directory cannot fill it.
const ownerAll = 0o700

// entry makes one entry.
func (im *importer) entry(h *tarstream.Header) error {
	name, err := im.name(h.Path)
	if err != nil {
		return err
	}
	mode := h.Mode.Perm()
	switch h.Type {
	case tarstream.Dir:
		return im.dir(name, mode)
	case tarstream.Symlink:
		return files.MakeSymlink(im.ctx, im.fsys, h.Target, name, files.SymlinkOptions{Overwrite: true})
	case tarstream.Hardlink:
		return im.copy(h, name, mode)
	}
	return im.file(name, im.in, h.Size, mode)
}

// file writes a regular file.
func (im *importer) file(name string, src io.Reader, size int64, mode fs.FileMode) error {
	create := mode
	if mode == 0 {
		create = 0o600 // a mode of 0 asks for the default
	}
	err := im.fsys.Write(im.ctx, name, src, size, files.WriteOptions{Mode: create, SetMode: true})
	if err == nil && mode == 0 {
		err = files.Chmod(im.ctx, im.fsys, name, 0)
	}
	return err
}

// copy makes a hard link a file of its own. Its content is that of the earlier entry as
// it is now.
func (im *importer) copy(h *tarstream.Header, name string, mode fs.FileMode) error {
	from, err := im.name(h.Target)
	if err != nil {
		return err
	}
	f, err := im.fsys.Open(im.ctx, from, files.OpenOptions{NoFollow: true})
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Info().Size != h.Size {
		return spec.New(spec.CodeUnavailable, "the file that it is a hard link to has changed since")
	}
	return im.file(name, f, h.Size, mode)
}

// dir makes a directory, or takes the one that is there.
func (im *importer) dir(name string, mode fs.FileMode) error {
	if mode&ownerAll != ownerAll {
		if im.kept += len(name) + lateBytes; im.kept > maxLate {
			return im.in.Refuse(tarstream.ArchiveTooLarge, "the directories that their owners cannot fill have names of more than %d bytes", maxLate)
		}
	}
	now := fs.FileMode(0o755) // what Mkdir gives
	err := im.fsys.Mkdir(im.ctx, name, files.MkdirOptions{})
	if spec.CodeOf(err) == spec.CodeFileNotFound {
		err = im.fsys.Mkdir(im.ctx, name, files.MkdirOptions{Parents: true})
	}
	if spec.CodeOf(err) == spec.CodeExists {
		var info files.Info
		if info, err = im.fsys.Stat(im.ctx, name, files.StatOptions{}); err == nil && !info.IsDir() {
			err = &spec.Error{Path: name, Code: spec.CodeNotDirectory}
		}
		now = info.Mode.Perm()
	}
	if err != nil {
		return err
	}
	if mode&ownerAll != ownerAll {
		im.late = append(im.late, lateDir{strings.Clone(name), mode})
		mode |= ownerAll
	}
	if mode == now {
		return nil
	}
	return im.chmod(name, mode)
}

// chmod sets the mode of a directory, if the FS can.
func (im *importer) chmod(name string, mode fs.FileMode) error {
	err := files.Chmod(im.ctx, im.fsys, name, mode)
	if spec.CodeOf(err) == spec.CodeUnsupported {
		return nil
	}
	return err
}

// finish gives directories the modes that were put off, the deepest first.
func (im *importer) finish() error {
	for _, d := range slices.Backward(im.late) {
		if err := im.chmod(d.name, d.mode); err != nil {
			return about(err, im.root, d.name)
		}
	}
	return nil
}
