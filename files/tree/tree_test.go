package tree_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/spec"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// A manifest is in the order of UTF-16, in which U+1F600 comes before U+FF5E, and its hash
// is that of its entries as RFC 8785 spells them.
func TestManifestIsCanonical(t *testing.T) {
	m, ctx := memfs.New("/w"), t.Context()
	for _, name := range []string{"\U0001f600", "\uff5e", "q\"\n\x01\\<\u2028", "a", "é"} {
		if err := files.WriteFile(ctx, m, name, []byte("x"), files.WriteOptions{Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tree.ReadManifest(ctx, m, "", tree.ManifestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var paths, objects []string
	for _, e := range got.Entries {
		paths = append(paths, e.Path)
	}
	if diff := cmp.Diff([]string{"a", "q\"\n\x01\\<\u2028", "é", "\U0001f600", "\uff5e"}, paths); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"a", `q\"\n\u0001\\<` + "\u2028", "é", "\U0001f600", "\uff5e"} {
		objects = append(objects, `{"mode":416,"path":"`+path+`","sha256":"`+hash("x")+`","size":1}`)
	}
	if want := hash("[" + strings.Join(objects, ",") + "]"); got.Hash != want {
		t.Errorf("the hash is %s, want %s", got.Hash, want)
	}
	none, err := tree.ReadManifest(ctx, memfs.New("/w"), "", tree.ManifestOptions{})
	if err != nil || none.Hash != hash("[]") {
		t.Errorf("of nothing: %+v, %v", none, err)
	}
}

// shrinking is an FS in which a file has less to give than it said.
type shrinking struct{ files.FS }

func (s shrinking) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	f, err := s.FS.Open(ctx, name, o)
	return shrunk{f}, err
}

type shrunk struct{ files.File }

func (shrunk) Read([]byte) (int, error) {
	return 0, spec.New(spec.CodeUnavailable, "the file shrank while it was read")
}

// A file that shrinks while it is exported is an error that names it, and what was written
// does not pass for whole.
func TestExportOfAFileThatShrinks(t *testing.T) {
	m := memfs.New("/w")
	if err := files.WriteFile(t.Context(), m, "d/f", []byte("123"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	_, err := tree.Export(t.Context(), shrinking{m}, "", &buf, tree.ExportOptions{})
	if spec.CodeOf(err) != spec.CodeUnavailable || !strings.Contains(err.Error(), "d/f") {
		t.Errorf("exported: %v", err)
	}
	if _, err := tree.Import(t.Context(), memfs.New("/v"), "", &buf, tree.ImportOptions{}); spec.CodeOf(err) != spec.CodeInvalid {
		t.Errorf("what was written passes for whole: %v", err)
	}
}

// breaking is an FS whose directory "d" cannot be read past so many entries.
type breaking struct {
	files.FS
	after int
	err   error
}

func (b breaking) Names(ctx context.Context, dir string, o files.NamesOptions) iter.Seq2[files.Info, error] {
	return func(yield func(files.Info, error) bool) {
		left := b.after
		for info, err := range files.Names(ctx, b.FS, dir, o) {
			if left--; left < 0 && strings.HasSuffix(dir, "d") {
				yield(files.Info{}, b.err)
				return
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// A directory that cannot be read, from the beginning or further on, whatever the reason,
// is an error of an export and of a manifest that names it. Only what has vanished is
// passed over.
func TestDirectoryThatCannotBeRead(t *testing.T) {
	m := memfs.New("/w")
	for _, name := range []string{"a", "d/1", "d/2", "z"} {
		if err := files.WriteFile(t.Context(), m, name, []byte("1"), files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, cause := range []*spec.Error{
		{Code: spec.CodePermission, Err: syscall.EACCES},
		{Code: spec.CodeUnavailable, Err: syscall.EIO},
		{Code: spec.CodeInternal, Err: syscall.ENOTCONN},
		{Code: spec.CodeNotDirectory, Err: syscall.ENOTDIR},
		{Code: spec.CodeInvalidPath, Err: syscall.ENAMETOOLONG},
		{Code: spec.CodeFileNotFound, Err: syscall.ENOENT},
	} {
		for after := range 2 {
			want := cause.Code
			if want == spec.CodeFileNotFound {
				want = ""
			}
			var buf bytes.Buffer
			fsys := breaking{m, after, cause}
			stats, err := tree.Export(t.Context(), fsys, "", &buf, tree.ExportOptions{})
			if spec.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), `"d"`) || err == nil && stats.Files != 2 {
				t.Errorf("%v after %d entries: exported %+v, %v", cause, after, stats, err)
			}
			if _, err := tree.Import(t.Context(), memfs.New("/v"), "", &buf, tree.ImportOptions{}); (err == nil) != (want == "") {
				t.Errorf("%v after %d entries: what was written is imported: %v", cause, after, err)
			}
			if _, err := tree.ReadManifest(t.Context(), fsys, "", tree.ManifestOptions{}); spec.CodeOf(err) != want || err != nil && !strings.Contains(err.Error(), `"d"`) {
				t.Errorf("%v after %d entries: the manifest: %v", cause, after, err)
			}
		}
	}
}

// accepting is an FS that takes any directory, and keeps to its root.
type accepting struct{ files.FS }

func (accepting) Mkdir(context.Context, string, files.MkdirOptions) error { return nil }

func (accepting) Chmod(context.Context, string, fs.FileMode) error { return nil }

func (a accepting) OpenRoot(context.Context, string) (files.FS, io.Closer, error) {
	return a, io.NopCloser(nil), nil
}

// What an import remembers of directories until its end is bounded, whatever their names:
// an archive that asks for more is refused by name.
func TestImportRemembersLittle(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		buf := bufio.NewWriterSize(w, 1<<20)
		to := tar.NewWriter(buf)
		parent := strings.Repeat(strings.Repeat("d", 240)+"/", 16)
		for i := range 9_000 {
			if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%s%d", parent, i), Mode: 0o500}); err != nil {
				break // the reader has had enough
			}
		}
		to.Close()
		buf.Flush()
		w.Close()
	}()
	defer r.Close()
	stats, err := tree.Import(t.Context(), accepting{memfs.New("/w")}, "", r, tree.ImportOptions{})
	var refused *tree.RefusedError
	if !errors.As(err, &refused) || refused.Reason != tree.ArchiveTooLarge || refused.Entry == "" || spec.CodeOf(err) != spec.CodeTooLarge {
		t.Errorf("imported %+v, %v, want %s", stats, err, tree.ArchiveTooLarge)
	}
	if stats.Dirs < 8_500 {
		t.Errorf("only %d directories are taken", stats.Dirs)
	}
}

// full is a writer that fails after some bytes.
type full struct {
	left int
	err  error
}

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// Where the archive cannot be written, the writer's error is in that of the export, and no
// room is said as what it is.
func TestExportToAWriterThatFails(t *testing.T) {
	m := memfs.New("/w")
	for _, name := range []string{"a", "b"} {
		if err := files.WriteFile(t.Context(), m, name, bytes.Repeat([]byte("x"), 100_000), files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for cause, want := range map[error]spec.Code{
		errors.New("the cable is out"):                             spec.CodeUnavailable,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}: spec.CodeNoSpace,
		&fs.PathError{Op: "write", Path: "f", Err: syscall.EDQUOT}: spec.CodeNoSpace,
	} {
		for left := 0; left < 200_000; left += 50_000 {
			if _, err := tree.Export(t.Context(), m, "", &full{left, cause}, tree.ExportOptions{}); !errors.Is(err, cause) || spec.CodeOf(err) != want {
				t.Errorf("after %d bytes: %v", left, err)
			}
		}
	}
}

// A file with no rights at all keeps that, though a mode of 0 is a default elsewhere.
func TestModeOfNothing(t *testing.T) {
	m := memfs.New("/w")
	if err := files.WriteFile(t.Context(), m, "from/f", []byte("1"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := files.Chmod(t.Context(), m, "from/f", 0); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() {
		_, err := tree.Export(t.Context(), m, "from", w, tree.ExportOptions{})
		w.CloseWithError(err)
	}()
	if _, err := tree.Import(t.Context(), m, "to", r, tree.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if info, err := m.Stat(t.Context(), "to/f", files.StatOptions{}); err != nil || info.Mode != fs.FileMode(0) {
		t.Errorf("the mode is %v, %v", info.Mode, err)
	}
}
