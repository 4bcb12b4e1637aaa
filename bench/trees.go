//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/tree"
)

// hugeBytes is the size of the one file of a large archive.
const hugeBytes = 1 << 30

// treeRows are whole directories in and out of a place as archives, against tar in the
// place at the other end of its input or output.
func treeRows(name string, sb *berth.Sandbox) []row {
	const count = 10_000
	small := sync.OnceValues(func() ([]byte, error) { return archiveOf(manyFiles("small", count)) })
	fromSmall := func() (io.Reader, error) {
		archive, err := small()
		return bytes.NewReader(archive), err
	}
	huge := func() (io.Reader, error) {
		var header, end bytes.Buffer
		w := tar.NewWriter(&header)
		err := w.WriteHeader(&tar.Header{Name: "huge/file", Mode: 0o644, Size: hugeBytes})
		_ = tar.NewWriter(&end).Close()
		return io.MultiReader(&header, io.LimitReader(zeros{}, hugeBytes), &end), err
	}
	return []row{
		importRow(name, sb, "10,000 files in, as an archive", "small", fromSmall),
		exportRow(name, sb, "10,000 files out", "small", fromSmall),
		importRow(name, sb, "1 GiB file in, as an archive", "huge", huge),
		exportRow(name, sb, "1 GiB file out", "huge", huge),
	}
}

// within2GiB is more than any archive here.
var within2GiB = tree.Limits{FileBytes: 2 << 30, ArchiveBytes: 2 << 30}

// importRow is an archive that is put into a place.
func importRow(name string, sb *berth.Sandbox, what, dir string, archive func() (io.Reader, error)) row {
	remove := func(top string) action {
		return func(ctx context.Context) error {
			return sb.Files().Remove(ctx, top, files.RemoveOptions{Recursive: true})
		}
	}
	return row{
		name: what, backend: name, slow: true, after: remove("in"),
		ours: func(ctx context.Context) error {
			from, err := archive()
			if err == nil {
				_, err = sb.Import(ctx, "in", from, tree.ImportOptions{Limits: within2GiB})
			}
			return err
		},
		against: []alternative{{name: "tar x in the place", after: remove(dir), run: func(ctx context.Context) error {
			from, err := archive()
			if err != nil {
				return err
			}
			cmd := sb.CommandContext(ctx, "tar", "xf", "-")
			cmd.Stdin = from
			return cmd.Run()
		}}},
	}
}

// exportRow is a directory that is taken out of a place.
func exportRow(name string, sb *berth.Sandbox, what, dir string, archive func() (io.Reader, error)) row {
	top := "out-" + dir
	prepared := sync.OnceValue(func() error {
		from, err := archive()
		if err == nil {
			_, err = sb.Import(context.Background(), top, from, tree.ImportOptions{Limits: within2GiB})
		}
		return err
	})
	measured := func(n int64, err error) error {
		if err == nil && n < 10_000*1024 {
			err = fmt.Errorf("an archive of %d bytes", n)
		}
		return err
	}
	return row{
		name: what, backend: name, slow: true,
		ours: func(ctx context.Context) error {
			if err := prepared(); err != nil {
				return err
			}
			var n byteCounter
			_, err := sb.Export(ctx, top, &n, tree.ExportOptions{Limits: within2GiB})
			return measured(int64(n), err)
		},
		against: []alternative{{name: "tar c in the place", run: func(ctx context.Context) error {
			var n byteCounter
			cmd := sb.CommandContext(ctx, "tar", "cf", "-", top)
			cmd.Stdout = &n
			err := cmd.Run()
			return measured(int64(n), err)
		}}},
	}
}

// byteCounter counts bytes.
type byteCounter int64

func (c *byteCounter) Write(p []byte) (int, error) {
	*c += byteCounter(len(p))
	return len(p), nil
}
