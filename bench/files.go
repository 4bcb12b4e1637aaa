//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
)

// fileRows are what files cost in a place.
func fileRows(name string, sb *berth.Sandbox, h *harness) []row {
	rows := append(smallFileRows(name, sb, h), batchRow(name, sb), globRow(name, sb), writeStreamRow(name, sb, h), readStreamRow(name, sb, h), watchRow(name, sb, h))
	return append(rows, treeRows(name, sb)...)
}

// smallFileRows are a write and a read of 1 KiB against the same system calls here,
// and against the goal: a ratio of 1 is one ping and three times these calls.
func smallFileRows(name string, sb *berth.Sandbox, h *harness) []row {
	data := make([]byte, 1024)
	local := filepath.Join(h.TempDir(), "f")
	write := func(context.Context) error {
		if err := os.WriteFile(local+".tmp", data, 0o644); err != nil {
			return err
		}
		return os.Rename(local+".tmp", local)
	}
	read := func(context.Context) error {
		_, err := os.ReadFile(local)
		return err
	}
	goal := func(calls action) action {
		return func(ctx context.Context) error {
			for _, do := range []action{ping(sb), calls, calls, calls} {
				if err := do(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []row{
		{name: "write 1 KiB", backend: name, ours: func(ctx context.Context) error {
			return sb.Files().WriteFile(ctx, "bench-file", data, files.WriteOptions{})
		}, against: []alternative{{name: "write and rename here", run: write}, {name: "a ping and 3 x that", run: goal(write)}}},
		{name: "read 1 KiB", backend: name, ours: func(ctx context.Context) error {
			_, err := sb.Files().ReadFile(ctx, "bench-file")
			return err
		}, against: []alternative{{name: "read here", run: read}, {name: "a ping and 3 x that", run: goal(read)}}},
	}
}

// manyFiles are so many files of 1 KiB, a hundred in a directory.
func manyFiles(top string, count int) iter.Seq2[files.BatchFile, error] {
	data := bytes.Repeat([]byte("0123456789abcde\n"), 64)
	return func(yield func(files.BatchFile, error) bool) {
		for i := range count {
			f := files.BatchFile{Name: fmt.Sprintf("%s/dir%03d/file%03d", top, i/100, i%100), Size: int64(len(data)), Src: bytes.NewReader(data)}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// manyCount is how many small files are written.
const manyCount, batchName = 10_000, "10,000 files in"

// removed removes a directory of a place.
func removed(sb *berth.Sandbox, dir string) action {
	return func(ctx context.Context) error {
		return sb.Files().Remove(ctx, dir, files.RemoveOptions{Recursive: true})
	}
}

// copiedIn is a program of this machine that unpacks an archive of the same files, from its
// input, into a place.
func copiedIn(name string, sb *berth.Sandbox, args ...string) alternative {
	const top = "in-cp"
	archive := sync.OnceValues(func() ([]byte, error) { return archiveOf(manyFiles(top, manyCount)) })
	return alternative{name: name, after: removed(sb, top), run: func(ctx context.Context) error {
		data, err := archive()
		if err != nil {
			return err
		}
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Stdin = bytes.NewReader(data)
		return c.Run()
	}}
}

// batchRow is 10,000 small files written against tar, which unpacks the same files
// from an archive that is in the place already.
func batchRow(name string, sb *berth.Sandbox) row {
	prepared := sync.OnceValue(func() error {
		archive, err := archiveOf(manyFiles("in-tar", manyCount))
		if err != nil {
			return err
		}
		return sb.Files().WriteFile(context.Background(), "bench.tar", archive, files.WriteOptions{})
	})
	remove := func(dir string) action { return removed(sb, dir) }
	return row{
		name: batchName, backend: name, slow: true, after: remove("in-batch"),
		ours: func(ctx context.Context) error {
			_, err := files.WriteBatch(ctx, sb.Files(), manyFiles("in-batch", manyCount), files.BatchOptions{})
			return err
		},
		against: []alternative{{name: "tar x in the place", after: remove("in-tar"), run: func(ctx context.Context) error {
			if err := prepared(); err != nil {
				return err
			}
			return sb.CommandContext(ctx, "tar", "xf", "bench.tar").Run()
		}}},
	}
}

// archiveOf is a tar archive of files.
func archiveOf(all iter.Seq2[files.BatchFile, error]) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for f, err := range all {
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o644, Size: f.Size}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(w, f.Src); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// globRow is a search among 100,000 files for all of them against find, both with the
// names here in the end.
func globRow(name string, sb *berth.Sandbox) row {
	const count, top = 100_000, "many"
	prepared := sync.OnceValue(func() error {
		_, err := files.WriteBatch(context.Background(), sb.Files(), manyFiles(top, count), files.BatchOptions{})
		return err
	})
	found := func(n int, err error) error {
		if err == nil && n != count {
			err = fmt.Errorf("%d files found of %d", n, count)
		}
		return err
	}
	return row{
		name: "glob 100,000 files", backend: name, slow: true,
		ours: func(ctx context.Context) error {
			if err := prepared(); err != nil {
				return err
			}
			n := 0
			for _, err := range files.Glob(ctx, sb.Files(), files.GlobOptions{Dir: top, Pattern: "**/file*", Types: files.GlobFiles}) {
				if err != nil {
					return err
				}
				n++
			}
			return found(n, nil)
		},
		against: []alternative{{name: "find in the place", run: func(ctx context.Context) error {
			var n lineCounter
			cmd := sb.CommandContext(ctx, "find", top, "-type", "f", "-name", "file*")
			cmd.Stdout = &n
			err := cmd.Run()
			return found(int(n), err)
		}}},
	}
}

// lineCounter counts newlines.
type lineCounter int

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

// streamBytes is the size of the large file.
const streamBytes = 256 << 20

// zeros is an endless source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// writeStreamRow is a large file in against one written here.
func writeStreamRow(name string, sb *berth.Sandbox, h *harness) row {
	local := filepath.Join(h.TempDir(), "large")
	return row{
		name: "write 256 MiB", backend: name, slow: true,
		ours: func(ctx context.Context) error {
			return sb.Files().Write(ctx, "bench-large", io.LimitReader(zeros{}, streamBytes), streamBytes, files.WriteOptions{})
		},
		against: []alternative{{name: "write here", run: func(context.Context) error { return writeHere(local) }}},
	}
}

func writeHere(name string) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, io.LimitReader(zeros{}, streamBytes), make([]byte, 64<<10)); err != nil {
		return err
	}
	return out.Close()
}

// readStreamRow is a large file out against one read here.
func readStreamRow(name string, sb *berth.Sandbox, h *harness) row {
	local := filepath.Join(h.TempDir(), "large")
	prepared := sync.OnceValue(func() error { return writeHere(local) })
	return row{
		name: "read 256 MiB", backend: name, slow: true,
		ours: func(ctx context.Context) error {
			f, err := sb.Files().Open(ctx, "bench-large", files.OpenOptions{})
			if err != nil {
				return err
			}
			defer f.Close()
			return drained(f)
		},
		against: []alternative{{name: "read here", run: func(context.Context) error {
			if err := prepared(); err != nil {
				return err
			}
			f, err := os.Open(local)
			if err != nil {
				return err
			}
			defer f.Close()
			return drained(f)
		}}},
	}
}

// drained reads a large file to its end.
func drained(f io.Reader) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 64<<10))
	if err == nil && n != streamBytes {
		err = fmt.Errorf("%d bytes of %d", n, streamBytes)
	}
	return err
}
