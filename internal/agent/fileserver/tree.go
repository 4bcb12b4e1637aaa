//go:build linux

package fileserver

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// treeOp returns what serves an operation on a whole directory; nil: nothing does.
func (v *Server) treeOp(op wire.Op) func(context.Context, *wire.Stream, *wire.TreeRequest) error {
	switch op {
	case wire.OpExport:
		return v.exportTree
	case wire.OpImport:
		return v.importTree
	case wire.OpFiles:
		return v.treeFiles
	}
	return nil
}

// frames writes data frames.
type frames struct {
	s     *wire.Stream
	chunk int
}

func (f frames) Write(p []byte) (int, error) {
	n, err := wire.WriteData(f.s, p, f.chunk)
	if err != nil {
		err = stream.ErrGone
	}
	return n, err
}

// exportTree sends a directory as an archive. The host checks it, as it has to anyway.
func (v *Server) exportTree(ctx context.Context, s *wire.Stream, r *wire.TreeRequest) error {
	stats, err := tree.Export(ctx, v.Files, string(r.Root), frames{s, v.ChunkBytes}, tree.ExportOptions{
		Exclude: texts(r.Exclude), Gitignore: r.Gitignore, ZeroTimes: r.ZeroTimes, OmitEscapingLinks: r.OmitLinks, Unchecked: true,
	})
	switch {
	case errors.Is(err, stream.ErrGone):
		return stream.ErrGone
	case err != nil:
		return err
	case wire.WriteEnd(s) != nil:
		return stream.ErrGone
	}
	return stream.Reply(s, &wire.Reply{Tree: counts(stats)})
}

// importTree takes an archive in. How much has landed is said with an error too.
func (v *Server) importTree(ctx context.Context, s *wire.Stream, r *wire.TreeRequest) error {
	stats, err := tree.Import(ctx, v.Files, string(r.Root), wire.NewDataReader(s), tree.ImportOptions{
		Empty: r.Empty, RefuseCaseTwins: r.CaseTwins,
		Limits: tree.Limits{FileBytes: r.FileBytes, ArchiveBytes: r.ArchiveBytes, Entries: r.Entries},
	})
	if stats.Entries() > 0 {
		v.Tell(wire.PlaceEvent{Kind: string(spec.EventTreeImported), Path: r.Root, Count: int64(stats.Entries())})
	}
	return stream.Reply(s, &wire.Reply{Err: wire.FromError(err), Tree: counts(stats)})
}

// treeFiles sends what the files of a directory are as they are read.
func (v *Server) treeFiles(ctx context.Context, s *wire.Stream, r *wire.TreeRequest) error {
	out := v.records(s)
	defer out.stop()
	prev := ""
	for e, err := range tree.Files(ctx, v.Files, string(r.Root), tree.ManifestOptions{Exclude: texts(r.Exclude), Gitignore: r.Gitignore}) {
		if err != nil {
			return out.fail(err)
		}
		f := wire.TreeFile{Path: e.Path, Mode: e.Mode, Size: e.Size}
		_, _ = hex.Decode(f.Sum[:], []byte(e.SHA256)) // of 32 bytes, always
		if !out.add(func(buf []byte) []byte { return wire.AppendTreeFile(buf, prev, &f) }) {
			return stream.ErrGone
		}
		prev = e.Path
	}
	return out.end()
}

func counts(s tree.Stats) *wire.TreeStats {
	return &wire.TreeStats{Files: s.Files, Dirs: s.Dirs, Links: s.Links, Bytes: s.Bytes, Skipped: s.Skipped}
}

func texts(list []wire.Bytes) []string {
	var out []string
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}
