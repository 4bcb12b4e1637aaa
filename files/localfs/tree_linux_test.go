package localfs_test

import (
	"archive/tar"
	"bytes"
	"os"
	"testing"

	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/internal/testutil/swapper"
)

// Whoever swaps a directory of the target for a link while an archive is put in, or taken
// out, makes neither leave it.
func TestTreesAgainstASwapper(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"d/f", "d/sub/g", "d/sub/h"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeSymlink, Name: "d/l", Linkname: "f"},
		{Typeflag: tar.TypeLink, Name: "d/hard", Linkname: "d/f"},
		{Typeflag: tar.TypeDir, Name: "d/locked", Mode: 0o500},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	outside := swapper.NewOutside(t, t.TempDir()+"/outside")
	root := t.TempDir()
	if err := os.Mkdir(root+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside.Dir, root+"/evil"); err != nil {
		t.Fatal(err)
	}
	f := localfs.New(root)
	swaps := swapper.Swap(root+"/d", root+"/evil")
	landed := 0
	for range 2 * swapper.Attempts() {
		stats, _ := tree.Import(t.Context(), f, "", bytes.NewReader(archive.Bytes()), tree.ImportOptions{})
		landed += stats.Entries()
		var out bytes.Buffer
		_, err := tree.Export(t.Context(), f, "", &out, tree.ExportOptions{OmitEscapingLinks: true})
		if err == nil && bytes.Contains(out.Bytes(), []byte(swapper.Canary)) {
			t.Fatal("an export holds what lies outside")
		}
	}
	t.Logf("%d swaps, %d entries have landed", swaps.Stop(), landed)
	outside.Check(t)
}
