//go:build unix

package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/memfs"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
)

// newPlace returns an empty place in memory.
func newPlace(t *testing.T) (*Place, *memfs.FS) {
	t.Helper()
	m := memfs.New("/w")
	return &Place{Key: "k", FS: m}, m
}

// put makes files in a place: a name that ends in a slash is a directory.
func put(t *testing.T, fsys files.FS, entries ...string) {
	t.Helper()
	for _, e := range entries {
		name, content, _ := strings.Cut(e, "=")
		var err error
		if strings.HasSuffix(name, "/") {
			err = fsys.Mkdir(t.Context(), name, files.MkdirOptions{Parents: true})
		} else {
			err = files.WriteFile(t.Context(), fsys, name, []byte(content), files.WriteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// putHost does the same below a directory of this machine.
func putHost(t *testing.T, dir string, entries ...string) {
	t.Helper()
	for _, e := range entries {
		name, content, _ := strings.Cut(e, "=")
		name = filepath.Join(dir, name) + name[len(strings.TrimRight(name, "/")):]
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil && !strings.HasSuffix(name, "/") {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tree describes all below a directory of this machine.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode().Type() == fs.ModeSymlink:
			target, _ := os.Readlink(p)
			text = "-> " + target
		}
		found[strings.TrimPrefix(p, dir+"/")] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// out copies a name of a place to one of this machine, in copies into a place.
func out(t *testing.T, p *Place, from, to string, o Options) (Summary, error) {
	t.Helper()
	s, err := p.Source(t.Context(), from)
	if err != nil {
		return Summary{}, err
	}
	target, closer, err := HostTarget(to)
	if err != nil {
		return Summary{}, err
	}
	defer closer()
	return run(t, s, target, o)
}

func in(t *testing.T, p *Place, from, to string, o Options) (Summary, error) {
	t.Helper()
	s, closer, err := HostSource(from)
	if err != nil {
		return Summary{}, err
	}
	defer closer()
	target, err := p.Target(t.Context(), to)
	if err != nil {
		return Summary{}, err
	}
	return run(t, s, target, o)
}

func run(t *testing.T, s *Source, target *Target, o Options) (Summary, error) {
	t.Helper()
	plan, err := Prepare(t.Context(), s, target, o)
	if err != nil {
		return Summary{}, err
	}
	var count Counter
	err = plan.Run(t.Context(), &count)
	sum := plan.Size()
	if err == nil && (count.Files.Load() != sum.Files || count.Bytes.Load() < sum.Bytes) {
		t.Errorf("counted %d files, %d bytes of %+v", count.Files.Load(), count.Bytes.Load(), sum)
	}
	return sum, err
}

func wantCode(t *testing.T, err error, code spec.Code) {
	t.Helper()
	if spec.CodeOf(err) != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}

// Bytes, names, modes, links and empty directories are the same after a way out and in.
func TestRoundTrip(t *testing.T) {
	p, m := newPlace(t)
	put(t, m, "d/a=one", "d/sub/b=two", "d/empty/", "d/sub/deep/er/", "d/odd\n\xff=x", "d/-rf=y", "d/none=")
	for name, mode := range map[string]fs.FileMode{"d/a": 0o600, "d/sub": 0o500, "d/sub/b": 0o444, "d/none": 0} {
		if err := m.Chmod(t.Context(), name, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"d/l": "a", "d/sub/up": "../a", "d/dangling": "nowhere", "d/dir": "sub/./deep"} {
		if err := m.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	sum, err := out(t, p, "d", filepath.Join(dir, "new"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Summary{Files: 5, Directories: 5, Links: 4, Bytes: 8}); sum != want {
		t.Errorf("summary %+v, want %+v", sum, want)
	}
	want := map[string]string{
		"new": "drwxr-xr-x", "new/a": "-rw------- one", "new/sub": "dr-x------", "new/sub/b": "-r--r--r-- two", "new/empty": "drwxr-xr-x",
		"new/sub/deep": "drwxr-xr-x", "new/sub/deep/er": "drwxr-xr-x", "new/odd\n\xff": "-rw-r--r-- x", "new/-rf": "-rw-r--r-- y", "new/none": "---------- ",
		"new/l": "-> a", "new/sub/up": "-> ../a", "new/dangling": "-> nowhere", "new/dir": "-> sub/./deep",
	}
	if os.Geteuid() != 0 {
		t.Skip("only root reads what has no mode")
	}
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("on this machine (-want +got):\n%s", diff)
	}
	// And back, without the links, into an existing directory; then out once more.
	put(t, m, "back/")
	var left []string
	if _, err = in(t, p, filepath.Join(dir, "new"), "back", Options{}); spec.CodeOf(err) != spec.CodeUnsupported {
		t.Errorf("links into a place: %v", err)
	}
	sum, err = in(t, p, filepath.Join(dir, "new"), "back", Options{Skip: func(path, _ string) { left = append(left, filepath.Base(path)) }})
	if err != nil || sum.Skipped != 4 || fmt.Sprint(left) != "[dangling dir l up]" {
		t.Fatalf("%+v, %v, left %v", sum, err, left)
	}
	again := t.TempDir()
	if _, err := out(t, p, "back/new", again, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"new/l", "new/sub/up", "new/dangling", "new/dir"} {
		delete(want, l)
	}
	if diff := cmp.Diff(want, tree(t, again)); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
}

// What names mean is as with cp -r.
func TestNames(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"f", "new", "new"},
		{"f", "dir", "dir/f"},
		{"f", "dir/new", "dir/new"},
		{"d", "new", "new/x"},
		{"d", "dir", "dir/d/x"},
		{"d/", "dir", "dir/d/x"},
		{"d/.", "dir", "dir/x"},
		{"d/.", "new", "new/x"},
		{"dir/../d", "new", "new/x"},
		{"link", "dir", "dir/link"},
		{"linked", "dir", "dir/linked/x"},
	} {
		p, m := newPlace(t)
		put(t, m, "f=1", "d/x=2", "dir/")
		host := t.TempDir()
		putHost(t, host, "f=1", "d/x=2", "dir/")
		for link, to := range map[string]string{"link": "f", "linked": "d"} {
			if err := errors.Join(m.Symlink(to, link), os.Symlink(to, filepath.Join(host, link))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := out(t, p, test.from, filepath.Join(host, test.to), Options{}); err != nil {
			t.Errorf("out %s %s: %v", test.from, test.to, err)
		} else if info, err := os.Lstat(filepath.Join(host, test.want)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("out %s %s: %v", test.from, test.to, err)
		}
		if _, err := in(t, p, host+"/"+test.from, test.to, Options{}); err != nil {
			t.Errorf("in %s %s: %v", test.from, test.to, err)
		} else if info, err := m.Stat(t.Context(), test.want, files.StatOptions{}); err != nil || !info.IsRegular() {
			t.Errorf("in %s %s: %v", test.from, test.to, err)
		}
		inside := &Place{Key: "k", FS: m}
		s, err := inside.Source(t.Context(), test.from)
		if err != nil {
			t.Fatal(err)
		}
		target, err := inside.Target(t.Context(), "in/"+test.to)
		if err == nil {
			_, err = run(t, s, target, Options{})
		}
		if err != nil {
			t.Errorf("inside %s %s: %v", test.from, test.to, err)
		}
	}
}

// What is in the way is refused before anything is written, both ways.
func TestInTheWay(t *testing.T) {
	p, m := newPlace(t)
	put(t, m, "d/a=new", "d/b/c=new", "d/z=new", "file=new")
	if err := m.Mkfifo("special"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		existing []string
		from     string
		code     spec.Code // without force
		forced   spec.Code
	}{
		{"a file", []string{"d/z=old"}, "d", spec.CodeExists, ""},
		{"a file deep down", []string{"d/b/c=old"}, "d", spec.CodeExists, ""},
		{"a directory for a file", []string{"d/a/"}, "d", spec.CodeIsDirectory, spec.CodeIsDirectory},
		{"a file for a directory", []string{"d/b=old"}, "d", spec.CodeNotDirectory, spec.CodeNotDirectory},
		{"a file alone", []string{"file=old"}, "file", spec.CodeExists, ""},
		{"a directory for a file alone", []string{"file/"}, "file", spec.CodeIsDirectory, spec.CodeIsDirectory},
		{"only directories", []string{"d/b/", "d/other=old"}, "d", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			source := t.TempDir()
			putHost(t, source, "d/a=new", "d/b/c=new", "d/z=new", "file=new")
			for _, force := range []bool{false, true} {
				want := test.code
				if force {
					want = test.forced
				}
				host := t.TempDir()
				putHost(t, host, test.existing...)
				before := tree(t, host)
				_, err := out(t, p, test.from, host, Options{Force: force})
				wantCode(t, err, want)
				if diff := cmp.Diff(before, tree(t, host)); err != nil && diff != "" {
					t.Errorf("out wrote something:\n%s", diff)
				}
				to := fmt.Sprint("to-", test.name, force)
				put(t, m, to+"/")
				for _, e := range test.existing {
					put(t, m, to+"/"+e)
				}
				_, err = in(t, p, filepath.Join(source, test.from), to, Options{Force: force})
				wantCode(t, err, want)
				there := t.TempDir()
				if _, failed := out(t, p, to+"/.", there, Options{}); failed != nil {
					t.Fatal(failed)
				}
				if diff := cmp.Diff(before, tree(t, there)); err != nil && diff != "" {
					t.Errorf("in wrote something:\n%s", diff)
				}
			}
		})
	}
	_, err := out(t, p, "special", t.TempDir(), Options{Skip: func(string, string) {}})
	wantCode(t, err, spec.CodeNotRegular)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = out(t, p, "file", fifo, Options{Force: true})
	wantCode(t, err, spec.CodeNotReplaceable)
	_, err = in(t, p, fifo, "new", Options{})
	wantCode(t, err, spec.CodeNotRegular)
}

// broken is a place one of whose files cannot be read to its end.
type broken struct {
	files.FS
	name string
	fail func() error // nil: it is short
}

func (b *broken) Open(ctx context.Context, name string, o files.OpenOptions) (files.File, error) {
	f, err := b.FS.Open(ctx, name, o)
	if err != nil || name != b.name {
		return f, err
	}
	half := io.LimitReader(f, f.Info().Size/2)
	if b.fail != nil {
		half = io.MultiReader(half, readerFunc(func([]byte) (int, error) { return 0, b.fail() }))
	}
	return &memory{Reader: half, info: f.Info()}, nil
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A copy that fails or is cancelled leaves no file half written under its name, and no
// temporary file.
func TestInterrupted(t *testing.T) {
	for _, name := range []string{"fails", "ends early", "is cancelled"} {
		t.Run(name, func(t *testing.T) {
			_, m := newPlace(t)
			for i := range 50 {
				put(t, m, fmt.Sprintf("d/f%02d=%s", i, strings.Repeat("x", 1000)))
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b := &broken{FS: m, name: "d/f25"}
			switch name {
			case "fails":
				b.fail = func() error { return spec.New(spec.CodeUnavailable, "gone") }
			case "is cancelled":
				b.fail = func() error { cancel(errors.New("enough")); return ctx.Err() }
			}
			dir := t.TempDir()
			s, err := (&Place{FS: b}).Source(ctx, "d")
			if err != nil {
				t.Fatal(err)
			}
			target, closer, err := HostTarget(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer closer()
			plan, err := Prepare(ctx, s, target, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Run(ctx, &Counter{}); err == nil {
				t.Error("it came to an end")
			}
			for name, text := range tree(t, dir) {
				if name != "d" && len(text) != len("-rw-r--r-- ")+1000 || strings.Contains(name, "berth") {
					t.Errorf("left: %s %.40s", name, text)
				}
			}
			// The same into a place: nothing of the batch is there.
			p, other := newPlace(t)
			to, err := p.Target(t.Context(), "to")
			if err != nil {
				t.Fatal(err)
			}
			if plan, err = Prepare(t.Context(), s, to, Options{}); err != nil {
				t.Fatal(err)
			}
			if err := plan.Run(ctx, &Counter{}); err == nil {
				t.Error("it came to an end")
			}
			for info, err := range other.List(t.Context(), "to") {
				if err == nil {
					t.Errorf("left: %s", info.Name)
				}
			}
		})
	}
}

// A file of the system that has no size is copied like others.
func TestPseudoFile(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Skip("there is none here")
	}
	p, m := newPlace(t)
	if _, err := in(t, p, "/proc/version", "v", Options{}); spec.CodeOf(err) != "" {
		t.Fatal(err)
	}
	if got, err := files.ReadFile(t.Context(), m, "v", 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// An unreadable file or directory is an error, never left out silently.
func TestUnreadable(t *testing.T) {
	p, _ := newPlace(t)
	_, err := in(t, p, filepath.Join(t.TempDir(), "absent"), "x", Options{})
	wantCode(t, err, spec.CodeFileNotFound)
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	dir := t.TempDir()
	putHost(t, dir, "a=1", "d/b=2")
	for name, mode := range map[string]fs.FileMode{"a": 0, "d": 0} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	_, err = in(t, p, filepath.Join(dir, "a"), "x", Options{})
	wantCode(t, err, spec.CodePermission)
	_, err = in(t, p, dir, "x", Options{})
	wantCode(t, err, spec.CodePermission)
	if err := os.Chmod(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
}
