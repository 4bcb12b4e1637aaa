package remotefs

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

var (
	_ tree.Exporter   = fileSystem{}
	_ tree.Importer   = fileSystem{}
	_ tree.Manifester = fileSystem{}
)

// ExportTree implements tree.Exporter. What the guest sends is read as strictly as an
// archive of a stranger, and w gets what was understood of it.
func (f fileSystem) ExportTree(ctx context.Context, root string, w io.Writer, o tree.ExportOptions) (tree.Stats, error) {
	e := &export{f: f, o: o, to: &sink{w: w}}
	e.req = &wire.Request{Op: wire.OpExport, Tree: &wire.TreeRequest{
		Root: wire.Bytes(root), Exclude: byteLists(o.Exclude), Gitignore: o.Gitignore, ZeroTimes: o.ZeroTimes, OmitLinks: o.OmitEscapingLinks,
	}}
	stats, err := e.run(ctx)
	if !e.to.used && f.s.Repeatable(err) {
		stats, err = e.run(ctx)
	}
	return stats, at(err, root)
}

func byteLists(list []string) []wire.Bytes {
	var out []wire.Bytes
	for _, s := range list {
		out = append(out, wire.Bytes(s))
	}
	return out
}

// sink is where bytes go; it remembers what stopped them.
type sink struct {
	w    io.Writer
	used bool
	err  error
}

func (s *sink) Write(p []byte) (int, error) {
	s.used = true
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}

// noting reads a source and remembers what it failed with, beside its end.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	k, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return k, err
}

// export is one export.
type export struct {
	f   fileSystem
	o   tree.ExportOptions
	req *wire.Request
	to  *sink
}

func (e *export) run(ctx context.Context) (tree.Stats, error) {
	st, err := e.f.s.Open(ctx, e.req, ask.Reads)
	if err != nil {
		return tree.Stats{}, err
	}
	defer st.End()
	out := bufio.NewWriterSize(e.to, e.f.s.ChunkBytes())
	w, from := tarstream.NewUncheckedWriter(out), &noting{r: wire.NewDataReader(st)}
	var counts tarstream.Counts
	err = tarstream.Copy(w, tarstream.NewReader(from, tarstream.Options{Limits: e.o.Limits}), counts.Add)
	stats := treeStats(counts)
	var said wire.TreeStats
	if err == nil {
		// The end of the archive is not passed on before the guest has said so.
		if said, err = wire.ReadTreeReply(st); err != nil {
			from.err = err
		}
	}
	if err == nil && wireStats(stats, said.Skipped) != said {
		return stats, ask.Violation("other counts than those of the archive")
	}
	if stats.Skipped = said.Skipped; err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
		return stats, nil
	case ctx.Err() != nil:
		return stats, ctx.Err()
	case e.to.err != nil:
		return stats, tarstream.WriteError(e.to.err)
	case from.err != nil:
		return stats, st.Failed(ctx, from.err, ask.Reads)
	}
	return stats, tree.WithLinkHint(err)
}

func treeStats(c tarstream.Counts) tree.Stats {
	return tree.Stats{Files: c.Files, Dirs: c.Dirs, Links: c.Links, Bytes: c.Bytes}
}

func wireStats(s tree.Stats, skipped int) wire.TreeStats {
	return wire.TreeStats{Files: s.Files, Dirs: s.Dirs, Links: s.Links, Bytes: s.Bytes, Skipped: skipped}
}

// ImportTree implements tree.Importer. The archive is checked here, and again where it
// lands; what is sent is one of our own making. When it returns early and r is in a Read
// that blocks, that one Read is left to end by itself; r is not read again. A nil r is an
// empty one. What has landed when ctx ends or the connection breaks is not known.
func (f fileSystem) ImportTree(ctx context.Context, root string, r io.Reader, o tree.ImportOptions) (tree.Stats, error) {
	st, err := f.s.Open(ctx, &wire.Request{Op: wire.OpImport, Tree: &wire.TreeRequest{
		Root: wire.Bytes(root), Empty: o.Empty, CaseTwins: o.RefuseCaseTwins,
		FileBytes: o.Limits.FileBytes, ArchiveBytes: o.Limits.ArchiveBytes, Entries: o.Limits.Entries,
	}}, ask.Reads) // without an archive it changes nothing
	if err != nil {
		return tree.Stats{}, at(err, root)
	}
	defer st.End()
	if r, err = sourceOf(r, -1); err != nil {
		return tree.Stats{}, at(err, root)
	}
	a := &archive{in: tarstream.NewReader(r, tarstream.Options{Limits: o.Limits, CaseTwins: o.RefuseCaseTwins})}
	u := newUpload(ctx, st, f.s.ChunkBytes(), a.send)
	go u.run()

	said, err := wire.ReadTreeReply(st)
	u.stop()
	stats, sent := tree.Stats{Files: said.Files, Dirs: said.Dirs, Links: said.Links, Bytes: said.Bytes}, a.counts()
	switch {
	case ctx.Err() != nil:
		return tree.Stats{}, ctx.Err()
	case stats.Files > sent.Files || stats.Dirs > sent.Dirs || stats.Links > sent.Links || stats.Bytes > sent.Bytes,
		err == nil && (stats != sent || !u.complete()):
		err = ask.Violation("other counts than those of the archive")
		return tree.Stats{}, at(err, root)
	case u.fault() != nil:
		return stats, at(endedBy(u.fault(), err, stats), root)
	case err == nil:
		return stats, nil
	}
	return stats, at(st.Failed(ctx, err, ask.Changes), root)
}

// endedBy is fault, of the caller's archive, with what the guest said of how much of it
// has landed, if it did.
func endedBy(fault, reply error, stats tree.Stats) error {
	var e *spec.Error
	if reply == nil || errors.As(reply, &e) || !errors.As(fault, &e) {
		return tree.Landed(fault, stats)
	}
	c := *e
	c.Err = fmt.Errorf("%w (how much has landed is not known)", e.Err)
	return &c
}

// archive sends one archive.
type archive struct {
	in *tarstream.Reader

	mu   sync.Mutex
	sent tarstream.Counts
}

// counts are those of the entries that were sent, or begun.
func (a *archive) counts() tree.Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return treeStats(a.sent)
}

func (a *archive) add(h *tarstream.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent.Add(h)
}

// send sends what the reader accepts; an archive that it refuses is the caller's fault.
func (a *archive) send(out *frames) error {
	to := &sink{w: out}
	w := tarstream.NewUncheckedWriter(to)
	err := tarstream.Copy(w, a.in, a.add)
	if err == nil {
		err = w.Close()
	}
	if err == nil || to.err != nil {
		return to.err
	}
	var refused *tree.RefusedError
	if !errors.As(err, &refused) {
		err = &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("the archive could not be read: %w", err)}
	}
	return &faultError{err}
}

// Write implements io.Writer.
func (f *frames) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		if len(f.buf) == cap(f.buf) {
			if err := f.flush(); err != nil {
				return done, err
			}
		}
		n := min(len(p)-done, cap(f.buf)-len(f.buf))
		f.buf = append(f.buf, p[done:done+n]...)
		done += n
	}
	return len(p), nil
}

// TreeFiles implements tree.Manifester. One that breaks off after its first file is not
// begun again: it is CodeUnavailable.
func (f fileSystem) TreeFiles(ctx context.Context, root string, o tree.ManifestOptions) iter.Seq2[tree.ManifestEntry, error] {
	return func(yield func(tree.ManifestEntry, error) bool) {
		req := &wire.Request{Op: wire.OpFiles, Tree: &wire.TreeRequest{Root: wire.Bytes(root), Exclude: byteLists(o.Exclude), Gitignore: o.Gitignore}}
		err := search(ctx, f.s, req, func(r io.Reader) func() (wire.TreeFile, error) {
			return wire.NewTreeFileReader(r).Next
		}, func(t *wire.TreeFile) (more bool, err error) {
			return yield(tree.ManifestEntry{Path: t.Path, Mode: t.Mode, Size: t.Size, SHA256: hex.EncodeToString(t.Sum[:])}, nil), nil
		})
		if err != nil {
			yield(tree.ManifestEntry{}, at(err, root))
		}
	}
}
