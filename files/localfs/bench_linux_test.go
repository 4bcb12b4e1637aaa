package localfs_test

import (
	"fmt"
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

// BenchmarkGlob finds all of 10,000 files, beside what it costs to list them.
func BenchmarkGlob(b *testing.B) {
	dir := b.TempDir()
	fsys := localfs.New(dir)
	_, err := fsys.WriteBatch(b.Context(), func(yield func(files.BatchFile, error) bool) {
		for i := range 10_000 {
			if !yield(files.BatchFile{Name: fmt.Sprintf("d%d/f%d", i/100, i)}, nil) {
				return
			}
		}
	}, files.BatchOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("glob", func(b *testing.B) {
		for b.Loop() {
			for _, err := range files.Glob(b.Context(), fsys, files.GlobOptions{Pattern: "**/f*", Types: files.GlobFiles}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("names", func(b *testing.B) {
		for b.Loop() {
			for i := range 100 {
				for _, err := range fsys.Names(b.Context(), fmt.Sprintf("d%d", i), files.NamesOptions{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		}
	})
}
