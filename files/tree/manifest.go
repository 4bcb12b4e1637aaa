package tree

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/internal/tarstream"
	"github.com/berth-dev/berth/spec"
)

// Manifest says what the regular files of a directory are, and nothing else of it: two
// directories with the same files have the same one.
type Manifest struct {
	// Entries are in the order of their paths as UTF-16 has it.
	Entries []ManifestEntry `json:"entries"`
	// Hash is the SHA-256, in hex, of Entries as a JSON array in the canonical form
	// of RFC 8785: objects with the members mode (a decimal number), path, sha256
	// and size in this order, no white space.
	Hash string `json:"hash"`
}

// ManifestEntry is one regular file.
type ManifestEntry struct {
	Path string `json:"path"` // relative to the directory
	// Mode holds the permission bits and, as 0o7000, those for set-user-ID,
	// set-group-ID and sticky.
	Mode   int64  `json:"mode"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ManifestOptions modify ReadManifest.
type ManifestOptions struct {
	// Exclude and Gitignore leave out what they do in files.GlobOptions.
	Exclude   []string
	Gitignore bool
	// MaxEntries bounds the Manifest; a directory with more files is CodeTooLarge.
	// 0: 1,000,000. So is one whose paths have more than 256 MiB together.
	MaxEntries int
}

// maxPaths bounds the paths of a Manifest in memory.
const maxPaths = 256 << 20

// Manifester is an FS that reads its files in place.
type Manifester interface {
	// TreeFiles yields an entry for each regular file below root, in the order of a
	// walk. The first error ends the sequence; breaking off is allowed.
	TreeFiles(ctx context.Context, root string, o ManifestOptions) iter.Seq2[ManifestEntry, error]
}

// ReadManifest reads all files below root; "" is the workdir, and root may be a link to a
// directory. A file that changes meanwhile is read as it was at some moment, or an error.
// A path that is not UTF-8 is CodeInvalidPath: a manifest cannot say it.
func ReadManifest(ctx context.Context, fsys files.FS, root string, o ManifestOptions) (Manifest, error) {
	root = orWorkdir(root)
	if err := validate(root, Limits{Entries: o.MaxEntries}); err != nil {
		return Manifest{}, err
	}
	most := o.MaxEntries
	if most == 0 {
		most = tarstream.DefaultEntries
	}
	m, paths := Manifest{Entries: []ManifestEntry{}}, 0
	for e, err := range Files(ctx, fsys, root, o) {
		if paths += len(e.Path); err == nil && (len(m.Entries) == most || paths > maxPaths) {
			err = spec.New(spec.CodeTooLarge, fmt.Sprintf("more than %d files, or than %d bytes of paths", most, maxPaths))
		}
		if err == nil && !utf8.ValidString(e.Path) {
			err = about(spec.New(spec.CodeInvalidPath, "a path that is not UTF-8"), root, e.Path)
		}
		if err != nil {
			return Manifest{}, at(err, root)
		}
		m.Entries = append(m.Entries, e)
	}
	slices.SortFunc(m.Entries, func(a, b ManifestEntry) int { return compareUTF16(a.Path, b.Path) })
	for i := 1; i < len(m.Entries); i++ {
		if m.Entries[i].Path == m.Entries[i-1].Path {
			return Manifest{}, at(about(spec.New(spec.CodeUnavailable, "it was listed twice"), root, m.Entries[i].Path), root)
		}
	}
	m.Hash = canonicalHash(m.Entries)
	return m, nil
}

// Files yields an entry for each regular file below root as Manifester says.
func Files(ctx context.Context, fsys files.FS, root string, o ManifestOptions) iter.Seq2[ManifestEntry, error] {
	if m, ok := fsys.(Manifester); ok {
		return m.TreeFiles(ctx, root, o)
	}
	return func(yield func(ManifestEntry, error) bool) {
		t, done, err := open(ctx, fsys, root)
		if err != nil {
			yield(ManifestEntry{}, err)
			return
		}
		defer done()
		h := hasher{tree: t, sum: sha256.New(), buf: make([]byte, writeBuffer)}
		err = walk(t, fsys, o.Exclude, o.Gitignore, func(path string, kind fs.FileMode) error {
			if kind != 0 {
				return ctx.Err()
			}
			e, err := h.entry(path)
			if err == nil && !yield(e, nil) {
				err = errEnough
			}
			return err
		})
		if err != nil && err != errEnough {
			yield(ManifestEntry{}, err)
		}
	}
}

// errEnough ends a walk whose caller has had enough. Having no code, it passes through.
var errEnough = io.EOF

// hasher reads files for a manifest.
type hasher struct {
	*tree
	sum hash.Hash
	buf []byte
}

func (h *hasher) entry(path string) (ManifestEntry, error) {
	name, err := h.name(path)
	if err != nil {
		return ManifestEntry{}, err
	}
	f, err := h.fsys.Open(h.ctx, name, files.OpenOptions{NoFollow: true})
	if err != nil {
		return ManifestEntry{}, err
	}
	defer f.Close()
	h.sum.Reset()
	for {
		if err := h.ctx.Err(); err != nil {
			return ManifestEntry{}, err
		}
		n, err := f.Read(h.buf)
		h.sum.Write(h.buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return ManifestEntry{}, err
		}
	}
	info := f.Info()
	return ManifestEntry{Path: path, Mode: tarstream.ModeBits(info.Mode), Size: info.Size, SHA256: hex.EncodeToString(h.sum.Sum(nil))}, nil
}

// compareUTF16 compares two texts by their UTF-16 code units.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			// Code points outside of the first plane are two units, which lie
			// below the last ones of it.
			if (x > maxUnit) != (y > maxUnit) {
				return cmp.Compare(firstUnit(x), firstUnit(y))
			}
			return cmp.Compare(x, y)
		}
		a, b = a[n:], b[m:]
	}
	return cmp.Compare(len(a), len(b))
}

const maxUnit = 0xffff

func firstUnit(r rune) rune {
	if r > maxUnit {
		r, _ = utf16.EncodeRune(r)
	}
	return r
}

// canonicalHash is Manifest.Hash.
func canonicalHash(entries []ManifestEntry) string {
	sum := sha256.New()
	io.WriteString(sum, "[")
	var buf []byte
	for i, e := range entries {
		buf = buf[:0]
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = fmt.Appendf(buf, `{"mode":%d,"path":`, e.Mode)
		buf = appendJSON(buf, e.Path)
		buf = fmt.Appendf(buf, `,"sha256":"%s","size":%d}`, e.SHA256, e.Size)
		sum.Write(buf)
	}
	io.WriteString(sum, "]")
	return hex.EncodeToString(sum.Sum(nil))
}

// appendJSON appends a text as RFC 8785 spells it: nothing is escaped but what must be.
func appendJSON(buf []byte, s string) []byte {
	short := map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}
	buf = append(buf, '"')
	for _, b := range []byte(s) {
		switch text := short[b]; {
		case text != "":
			buf = append(buf, text...)
		case b < ' ':
			buf = fmt.Appendf(buf, `\u%04x`, b)
		default:
			buf = append(buf, b)
		}
	}
	return append(buf, '"')
}
