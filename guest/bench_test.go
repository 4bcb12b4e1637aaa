//go:build linux

package guest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// BenchmarkForkExec is what BenchmarkExec is held against.
func BenchmarkForkExec(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("/bin/true")
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExec runs the same program through a connected guest.
func BenchmarkExec(b *testing.B) {
	s := newPlace(b).open(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		var out, errOut bytes.Buffer
		p, err := s.Start(ctx, &spec.Command{Args: []string{"/bin/true"}}, driver.Stdio{Stdout: &out, Stderr: &errOut})
		if err != nil {
			b.Fatal(err)
		}
		if e, err := p.Wait(ctx); err != nil || !e.Success() {
			b.Fatal(e, err)
		}
	}
}

func BenchmarkPing(b *testing.B) {
	s := newPlace(b).open(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		if err := s.Ping(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite1KiB(b *testing.B) {
	fsys := newPlace(b).open(nil).Files()
	data := make([]byte, 1024)
	for b.Loop() {
		if err := files.WriteFile(context.Background(), fsys, "a", data, files.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead1KiB(b *testing.B) {
	fsys := newPlace(b).open(nil).Files()
	if err := files.WriteFile(context.Background(), fsys, "a", make([]byte, 1024), files.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := files.ReadFile(context.Background(), fsys, "a", 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdout(b *testing.B) {
	s := newPlace(b).open(nil)
	const size = 256 << 20
	b.SetBytes(size)
	for b.Loop() {
		p, err := s.Start(context.Background(), argv("head", "-c", "268435456", "/dev/zero"), driver.Stdio{Stdout: writerFunc(io.Discard.Write)})
		if err != nil {
			b.Fatal(err)
		}
		if e, err := p.Wait(context.Background()); err != nil || e.StdoutBytes != size {
			b.Fatal(e, err)
		}
	}
}

// smallFiles are what BenchmarkBatch and BenchmarkTar make: 10,000 files of 1 KiB in
// a hundred directories.
const (
	smallFiles = 10_000
	smallDirs  = 100
	smallBytes = 1024
)

func smallName(i int) string { return fmt.Sprintf("dir%02d/file%05d", i%smallDirs, i) }

func BenchmarkBatch(b *testing.B) {
	fsys := newPlace(b).open(nil).Files()
	data := make([]byte, smallBytes)
	for n := 0; b.Loop(); n++ {
		dir := fmt.Sprintf("batch%d/", n)
		landed, err := files.WriteBatch(context.Background(), fsys, func(yield func(files.BatchFile, error) bool) {
			for i := range smallFiles {
				if !yield(files.BatchFile{Name: dir + smallName(i), Size: smallBytes, Src: bytes.NewReader(data)}, nil) {
					return
				}
			}
		}, files.BatchOptions{})
		if err != nil || landed != smallFiles {
			b.Fatal(landed, err)
		}
		b.StopTimer()
		if err := fsys.Remove(context.Background(), dir, files.RemoveOptions{Recursive: true}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkTar is what BenchmarkBatch is held against.
func BenchmarkTar(b *testing.B) {
	archive := filepath.Join(b.TempDir(), "a.tar")
	out, err := os.Create(archive)
	if err != nil {
		b.Fatal(err)
	}
	w, data := tar.NewWriter(out), make([]byte, smallBytes)
	for i := range smallFiles {
		err := w.WriteHeader(&tar.Header{Name: smallName(i), Mode: 0o644, Size: smallBytes})
		if _, werr := w.Write(data); err != nil || werr != nil {
			b.Fatal(err, werr)
		}
	}
	if err := errors.Join(w.Close(), out.Close()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		dir := b.TempDir()
		if out, err := exec.Command("tar", "xf", archive, "-C", dir).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.StopTimer()
		if err := os.RemoveAll(dir); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
