//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"io"
	"os/exec"
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
