package tree_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
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
