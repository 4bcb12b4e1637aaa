package localfs_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/files/tree"
)

// randomName is one of few, so that links meet one another.
func randomName(r *rand.Rand) string { return string("abc"[r.IntN(3)]) }

// randomPath is a name of one to three elements.
func randomPath(r *rand.Rand) string {
	path := make([]string, 1+r.IntN(3))
	for i := range path {
		path[i] = randomName(r)
	}
	return strings.Join(path, "/")
}

// randomTarget is any relative target: half of its elements lead up.
func randomTarget(r *rand.Rand) string {
	elems := make([]string, 1+r.IntN(5))
	for i := range elems {
		switch n := r.IntN(20); {
		case n < 9:
			elems[i] = ".."
		case n == 9:
			elems[i] = "."
		default:
			elems[i] = randomName(r)
		}
	}
	return strings.Join(elems, "/")
}

// checkLinks fails the test if a link below root leads out of it, be it on the way only
// or to nothing, and returns how many there are that lead to something.
func checkLinks(t *testing.T, seed uint64, root string) int {
	t.Helper()
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	whole := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		name, _ := filepath.Rel(root, path)
		fd, err := -1, error(unix.EAGAIN)
		for errors.Is(err, unix.EAGAIN) { // something on this machine has been renamed or mounted meanwhile
			fd, err = unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
		}
		switch {
		case err == nil:
			whole++
			return unix.Close(fd)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
			return nil
		}
		target, _ := os.Readlink(path)
		t.Fatalf("seed %d: %s -> %s: %v", seed, name, target, err)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// linkArchive is one of an entry: a link, or a file or a directory that others may lead to.
func linkArchive(t *testing.T, r *rand.Rand) []byte {
	h := tar.Header{Typeflag: tar.TypeSymlink, Name: randomPath(r), Linkname: randomTarget(r)}
	if r.IntN(4) == 0 {
		h = tar.Header{Typeflag: tar.TypeDir, Name: h.Name, Mode: 0o755}
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// However links lead through each other, of one archive or of several, earlier or later,
// none of those that are taken leads out.
func TestImportedLinksStayInside(t *testing.T) {
	whole := 0
	for seed := range uint64(60) {
		r, root := rand.New(rand.NewPCG(seed, 0)), t.TempDir()
		f := localfs.New(root)
		for range 25 {
			// Most are refused, by their targets or by what is there.
			_, _ = tree.Import(t.Context(), f, "", bytes.NewReader(linkArchive(t, r)), tree.ImportOptions{})
		}
		whole += checkLinks(t, seed, root)
	}
	if whole < 50 {
		t.Errorf("only %d links lead to something", whole)
	}
}

// An export without the links that may lead out has none that does, whatever others of
// the directory lead through, and an import takes all of it.
func TestExportedLinksStayInside(t *testing.T) {
	whole := 0
	for seed := range uint64(60) {
		r, from, to := rand.New(rand.NewPCG(seed, 1)), t.TempDir(), t.TempDir()
		for range 25 {
			path := filepath.Join(from, randomPath(r))
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(path), 0o755) == nil {
				dir, err = filepath.EvalSymlinks(filepath.Dir(path))
			}
			if err == nil && dir == filepath.Dir(path) {
				_ = os.Symlink(randomTarget(r), path) // what is there stays
			}
		}
		var archive bytes.Buffer
		out, err := tree.Export(t.Context(), localfs.New(from), "", &archive, tree.ExportOptions{OmitEscapingLinks: true})
		if err != nil {
			t.Fatal(err)
		}
		in, err := tree.Import(t.Context(), localfs.New(to), "", &archive, tree.ImportOptions{})
		if err != nil || in.Links != out.Links {
			t.Fatalf("seed %d: imported %+v of %+v: %v", seed, in, out, err)
		}
		whole += checkLinks(t, seed, to)
	}
	if whole < 50 {
		t.Errorf("only %d links lead to something", whole)
	}
}
