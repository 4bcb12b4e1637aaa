package transfer

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// batchFiles is how many files travel before any of them is there under its name.
const batchFiles = 10_000

// Place is the side of a place. Two sources or targets are in one place if they have the
// same *Place.
type Place struct {
	// Key is how messages call the place.
	Key string
	FS  files.FS
}

// Source finds what is to be copied out of a place. A link that is named itself is
// followed, by the place.
func (p *Place) Source(ctx context.Context, name string) (*Source, error) {
	if name == "" {
		name = "."
	}
	info, err := p.Stat(ctx, name, true)
	if err != nil {
		return nil, err
	}
	return &Source{side: p, name: name, base: base(name), info: info}, nil
}

// Target finds out what a name in a place is.
func (p *Place) Target(ctx context.Context, name string) (*Target, error) {
	if name == "" {
		name = "."
	}
	info, err := p.Stat(ctx, name, true)
	if err != nil && spec.CodeOf(err) != spec.CodeFileNotFound {
		return nil, err
	}
	if short := strings.TrimRight(name, "/"); short != "" {
		name = short
	}
	return &Target{side: p, name: name, dir: err == nil && info.IsDir()}, nil
}

// Stat implements side.
func (p *Place) Stat(ctx context.Context, name string, follow bool) (files.Info, error) {
	return p.FS.Stat(ctx, name, files.StatOptions{Follow: follow})
}

// List implements side.
func (p *Place) List(ctx context.Context, dir string, r *Room) ([]files.Info, error) {
	var entries []files.Info
	for info, err := range p.FS.List(ctx, dir) {
		if err != nil {
			return nil, err
		}
		if !r.list(&info) {
			return nil, tooMany(p.path(dir))
		}
		entries = append(entries, info)
	}
	return entries, nil
}

// Open implements side. A link is followed, inside the place.
func (p *Place) Open(ctx context.Context, name string) (files.File, error) {
	return p.FS.Open(ctx, name, files.OpenOptions{})
}

func (p *Place) path(name string) string { return p.Key + ":" + name }

func (p *Place) check(string) error { return nil }
func (p *Place) traits() traits     { return traits{parents: true} }

func (p *Place) mkdir(ctx context.Context, name string) error {
	return p.FS.Mkdir(ctx, name, files.MkdirOptions{Parents: true})
}

func (p *Place) chmod(ctx context.Context, name string, mode fs.FileMode) error {
	if mode == 0o755 { // it is that already
		return nil
	}
	return files.Chmod(ctx, p.FS, name, mode)
}

func (p *Place) symlinks(_ context.Context, links []entry) error {
	return failed(p.path(links[0].to), spec.CodeUnsupported, "a sandbox cannot be given a symbolic link")
}

func (p *Place) write(ctx context.Context, from side, items []item, count *Counter) error {
	if len(items) == 1 {
		return p.writeOne(ctx, from, items[0], count)
	}
	for len(items) > 0 {
		n := min(len(items), batchFiles)
		if err := p.writeBatch(ctx, from, items[:n], count); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// writeOne writes a file that is alone, whose name is taken atomically.
func (p *Place) writeOne(ctx context.Context, from side, it item, count *Counter) error {
	f, err := from.Open(ctx, it.from)
	if err != nil {
		return err
	}
	defer f.Close()
	size := f.Info().Size
	src := &counted{r: io.LimitReader(f, size), n: count}
	err = p.FS.Write(ctx, it.to, src, size, files.WriteOptions{Mode: it.mode, SetMode: true, Exclusive: !it.force})
	if err != nil {
		return err
	}
	count.Files.Add(1)
	if it.mode == 0 {
		return files.Chmod(ctx, p.FS, it.to, 0)
	}
	return nil
}

func (p *Place) writeBatch(ctx context.Context, from side, items []item, count *Counter) error {
	if _, err := files.WriteBatch(ctx, p.FS, contents(ctx, from, items, count), files.BatchOptions{}); err != nil {
		return err
	}
	for _, it := range items {
		// A batch knows no mode 0, and leaves a file its mode that it replaces.
		kept := it.old != nil && it.old.Mode.IsRegular() && it.old.Mode.Perm() != it.mode
		if it.mode != 0 && !kept {
			continue
		}
		if err := files.Chmod(ctx, p.FS, it.to, it.mode); err != nil {
			return err
		}
	}
	return nil
}

// contents yields files as a batch takes them, each open while it is the last one.
func contents(ctx context.Context, from side, items []item, count *Counter) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		for _, it := range items {
			f, err := from.Open(ctx, it.from)
			if err != nil {
				yield(files.BatchFile{}, err)
				return
			}
			size := f.Info().Size
			src := &counted{r: io.LimitReader(f, size), n: count}
			ok := yield(files.BatchFile{Name: it.to, Mode: it.mode, Size: size, Src: src}, nil)
			f.Close()
			if !ok {
				return
			}
			count.Files.Add(1)
		}
	}
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n *Counter
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Bytes.Add(int64(n))
	return n, err
}
