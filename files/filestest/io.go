package filestest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing/fstest"

	"github.com/berth-dev/berth/files"
)

func ioCases() []Case {
	return []Case{
		{Name: "IOFS", Rule: "NewIOFS returns the files below root as package io/fs has them: it passes testing/fstest.", Run: ioFS},
		{Name: "IOFSLinks", Rule: "It is also an fs.ReadLinkFS.", need: needLinks, Run: ioLinks},
		{Name: "IOFSErrors", Rule: "Errors are *fs.PathErrors. Names in io/fs are UTF-8; a file with another name is left out.", Run: ioErrors},
		{Name: "IOFSSeek", Rule: "Its files are io.Seekers and io.ReaderAts, at the price of one Open for each jump; one that has been replaced since is not read on.", Run: ioSeek},
	}
}

func ioFS(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "a", "d/b", "d/e/c", "with space", "é/x", ".dot", "-")
	e.write(ctx, t, e.path("noise"), noise(3_000, 40))
	e.write(ctx, t, e.path("empty"), "")
	e.mkdir(ctx, t, e.path("none"))
	fsys := files.NewIOFS(ctx, e.FS, e.Dir)
	if err := fstest.TestFS(fsys, "a", "d/b", "d/e/c", "with space", "é/x", ".dot", "-", "noise", "empty", "none"); err != nil {
		t.Errorf("%v", err)
	}
	sub, err := fs.Sub(fsys, "d")
	if err != nil {
		t.Fatalf("sub: %v", err)
	}
	if got, err := fs.ReadFile(sub, "e/c"); err != nil || string(got) != "content of d/e/c" {
		t.Errorf("read below: %q, %v", got, err)
	}
	var walked []string
	err = fs.WalkDir(fsys, "d", func(p string, _ fs.DirEntry, err error) error {
		walked = append(walked, p)
		return err
	})
	if want := []string{"d", "d/b", "d/e", "d/e/c"}; err != nil || !slices.Equal(walked, want) {
		t.Errorf("walked %q, %v; want %q", walked, err, want)
	}
	if got, err := fs.Glob(fsys, "*/b"); err != nil || !slices.Equal(got, []string{"d/b"}) {
		t.Errorf("glob: %q, %v", got, err)
	}
}

func ioLinks(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "d/f")
	e.symlink(ctx, t, "d/f", e.path("link"))
	e.symlink(ctx, t, "d", e.path("dirlink"))
	fsys := files.NewIOFS(ctx, e.FS, e.Dir)
	if err := fstest.TestFS(fsys, "d/f", "link", "dirlink"); err != nil {
		t.Errorf("%v", err)
	}
	if got, err := fs.ReadLink(fsys, "link"); err != nil || got != "d/f" {
		t.Errorf("read a link: %q, %v", got, err)
	}
	if _, err := fs.ReadLink(fsys, "d/f"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("read a file as a link: %v", err)
	}
	if info, err := fs.Lstat(fsys, "link"); err != nil || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("lstat a link: %v, %v", info, err)
	}
	if info, err := fs.Stat(fsys, "link"); err != nil || !info.Mode().IsRegular() || info.Name() != "link" {
		t.Errorf("stat a link: %v, %v", info, err)
	}
	if got, err := fs.ReadFile(fsys, "dirlink/f"); err != nil || string(got) != "content of d/f" {
		t.Errorf("read by a link: %q, %v", got, err)
	}
}

func ioErrors(ctx context.Context, t T, e Env) {
	e.writeAll(ctx, t, "f", "\xff", "d/\xfe\n", "d/x")
	fsys := files.NewIOFS(ctx, e.FS, e.Dir)
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "": fs.ErrInvalid, "/f": fs.ErrInvalid, "../f": fs.ErrInvalid, "d/": fs.ErrInvalid, "\xff": fs.ErrInvalid} {
		for what, call := range map[string]func(string) error{
			"open":    func(n string) error { _, err := fsys.Open(n); return err },
			"stat":    func(n string) error { _, err := fs.Stat(fsys, n); return err },
			"lstat":   func(n string) error { _, err := fs.Lstat(fsys, n); return err },
			"read":    func(n string) error { _, err := fs.ReadFile(fsys, n); return err },
			"readdir": func(n string) error { _, err := fs.ReadDir(fsys, n); return err },
		} {
			err := call(name)
			var pe *fs.PathError
			if !errors.Is(err, want) || !errors.As(err, &pe) || pe.Path != name {
				t.Errorf("%s %q: %v, want a *fs.PathError with %v", what, name, err, want)
			}
		}
	}
	for dir, want := range map[string][]string{".": {"d", "f"}, "d": {"x"}} {
		var names []string
		entries, err := fs.ReadDir(fsys, dir)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%s holds %q, %v; want %q", dir, names, err, want)
		}
	}
	call, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := files.NewIOFS(call, e.FS, e.Dir).Open("f"); !errors.Is(err, context.Canceled) {
		t.Errorf("open after the context has ended: %v", err)
	}
}

func ioSeek(ctx context.Context, t T, e Env) {
	content := noise(100_000, 41)
	e.write(ctx, t, e.path("f"), content)
	f, err := files.NewIOFS(ctx, e.FS, e.Dir).Open("f")
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	file, ok := f.(interface {
		io.ReadSeeker
		io.ReaderAt
	})
	if !ok {
		t.Fatalf("a %T is no io.ReadSeeker and io.ReaderAt", f)
	}
	for _, at := range []struct {
		offset int64
		whence int
		want   int64
	}{{50_000, io.SeekStart, 50_000}, {-10, io.SeekCurrent, 50_000}, {-10, io.SeekEnd, 99_990}, {5, io.SeekEnd, 100_005}, {0, io.SeekStart, 0}} {
		got, err := file.Seek(at.offset, at.whence)
		if err != nil || got != at.want {
			t.Fatalf("seek %+v: %d, %v", at, got, err)
		}
		buf := make([]byte, 10)
		n, err := io.ReadFull(file, buf)
		if at.want > 100_000 {
			if err != io.EOF {
				t.Errorf("read past the end: %d, %v", n, err)
			}
			continue
		}
		if err != nil || string(buf) != content[at.want:at.want+10] {
			t.Errorf("read at %d: %q, %v", at.want, buf[:n], err)
		}
	}
	section := make([]byte, 30)
	if n, err := file.ReadAt(section, 99_980); n != 20 || err != io.EOF || string(section[:n]) != content[99_980:] {
		t.Errorf("read at the end: %d, %v", n, err)
	}
	if _, err := file.Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("seek before the start: %v", err)
	}
	e.write(ctx, t, e.path("f"), content[1:])
	if _, err := file.ReadAt(section, 0); err == nil {
		t.Errorf("a file that has been replaced is read on")
	}
}
