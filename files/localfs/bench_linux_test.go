package localfs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
)

// BenchmarkWrite1K is an atomic write of a small file, beside the least that an
// atomic write costs: a temporary file and a rename.
func BenchmarkWrite1K(b *testing.B) {
	dir := b.TempDir()
	data := []byte(strings.Repeat("x", 1024))
	b.Run("localfs", func(b *testing.B) {
		fsys := localfs.New(dir)
		for b.Loop() {
			if err := files.WriteFile(b.Context(), fsys, "f", data, files.WriteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os", func(b *testing.B) {
		for b.Loop() {
			if err := os.WriteFile(dir+"/temp", data, 0o644); err != nil {
				b.Fatal(err)
			}
			if err := os.Rename(dir+"/temp", dir+"/f"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRead1K is a small file read whole.
func BenchmarkRead1K(b *testing.B) {
	dir := b.TempDir()
	if err := os.WriteFile(dir+"/f", []byte(strings.Repeat("x", 1024)), 0o644); err != nil {
		b.Fatal(err)
	}
	b.Run("localfs", func(b *testing.B) {
		fsys := localfs.New(dir)
		for b.Loop() {
			if _, err := files.ReadFile(b.Context(), fsys, "f", 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(dir + "/f"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
