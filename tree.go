package berth

import (
	"context"
	"io"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
)

var (
	_ files.Symlinker = (*Files)(nil)
	_ tree.Exporter   = (*Files)(nil)
	_ tree.Importer   = (*Files)(nil)
	_ tree.Manifester = (*Files)(nil)
)

// Export writes the directory dir of the place, "" being its workdir, as a tar archive to
// w. What comes out is checked on the way: w gets what was understood of it, within
// o.Limits, and the end of the archive only once the place has said that it is whole.
// Package tree states the rest.
func (sb *Sandbox) Export(ctx context.Context, dir string, w io.Writer, o tree.ExportOptions) (tree.Stats, error) {
	stats, err := tree.Export(ctx, sb.Files(), dir, w, o)
	return stats, sb.wrap(err, "export", dir)
}

// Import puts what the tar archive r holds into the directory dir of the place, "" being
// its workdir. An archive that is refused has a *tree.RefusedError in its error, which
// says too how much has landed before. Package tree states the rest.
func (sb *Sandbox) Import(ctx context.Context, dir string, r io.Reader, o tree.ImportOptions) (tree.Stats, error) {
	stats, err := tree.Import(ctx, sb.Files(), dir, r, o)
	return stats, sb.wrap(err, "import", dir)
}

// Manifest says what the regular files below the directory dir are, "" being the workdir,
// with one hash of all. They are read in the place.
func (sb *Sandbox) Manifest(ctx context.Context, dir string, o tree.ManifestOptions) (tree.Manifest, error) {
	m, err := tree.ReadManifest(ctx, sb.Files(), dir, o)
	return m, sb.wrap(err, "read", dir)
}

// ExportTree implements tree.Exporter.
func (f *Files) ExportTree(ctx context.Context, root string, w io.Writer, o tree.ExportOptions) (tree.Stats, error) {
	fsys, err := f.fs(ctx)
	if err != nil {
		return tree.Stats{}, f.sb.wrap(err, "export", root)
	}
	stats, err := tree.Export(ctx, fsys, root, w, o)
	return stats, f.sb.wrap(err, "export", root)
}

// ImportTree implements tree.Importer.
func (f *Files) ImportTree(ctx context.Context, root string, r io.Reader, o tree.ImportOptions) (tree.Stats, error) {
	var stats tree.Stats
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditTree, Path: root}, func(fsys files.FS) (err error) {
		stats, err = tree.Import(ctx, fsys, root, r, o)
		return err
	})
	return stats, f.sb.wrap(err, "import", root)
}

// TreeFiles implements tree.Manifester.
func (f *Files) TreeFiles(ctx context.Context, root string, o tree.ManifestOptions) iter.Seq2[tree.ManifestEntry, error] {
	return each(ctx, f, "read", root, func(fsys files.FS) iter.Seq2[tree.ManifestEntry, error] { return tree.Files(ctx, fsys, root, o) })
}

// MakeSymlink makes name a symbolic link to target; see files.Symlinker.
func (f *Files) MakeSymlink(ctx context.Context, target, name string, o files.SymlinkOptions) error {
	err := f.change(ctx, spec.AuditRecord{Kind: spec.AuditWrite, Path: name}, func(fsys files.FS) error {
		return files.MakeSymlink(ctx, fsys, target, name, o)
	})
	return f.sb.wrap(err, "link", name)
}
