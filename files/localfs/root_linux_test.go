package localfs_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

// ways are the two ways in which a confined FS follows a path.
var ways = map[string]func(*localfs.FS) *localfs.FS{
	"by the kernel": func(f *localfs.FS) *localfs.FS { return f },
	"step by step":  localfs.WalkOnly,
}

func rooted(t *testing.T, workdir, root string) *localfs.FS {
	t.Helper()
	f, err := localfs.NewRooted(workdir, root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// eachWay runs a test on a confined FS in both ways.
func eachWay(t *testing.T, test func(t *testing.T, open func(workdir, root string) *localfs.FS)) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			test(t, func(workdir, root string) *localfs.FS { return way(rooted(t, workdir, root)) })
		})
	}
}

// An FS that keeps to a directory keeps the whole contract in it, but for the cases
// that climb to the top of the place.
func TestRootedContract(t *testing.T) {
	climbs := []string{"ReadDirectory", "WriteOntoDirectory", "DotDot", "RelativeNames", "Mkdir"}
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		if testing.Short() && !strings.HasSuffix(t.Name(), "kernel") {
			t.Skip("the quick tier leaves the way without openat2 to the full one")
		}
		for _, c := range filestest.Cases() {
			if slices.Contains(climbs, c.Name) {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				root := tempDir(t)
				dir := root + "/dir"
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				env := filestest.Env{FS: open(dir, root), Dir: dir, Shell: shell}
				if missing := c.Missing(t.Context(), env); missing != "" {
					t.Skip(missing)
				}
				c.Run(t.Context(), t, env)
			})
		}
	})
}

// prison makes a root with links that lead out of it, beside a directory that must
// stay as it is.
func prison(t *testing.T) (root, outside string) {
	t.Helper()
	top := tempDir(t)
	root, outside = top+"/root", top+"/outside"
	for _, dir := range []string{root + "/sub/deeper", outside + "/dir"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		root + "/in": "inside", root + "/sub/in": "inside", outside + "/secret": "secret", outside + "/dir/secret": "secret", top + "/rootkit": "secret",
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"up": "..", "out": "../outside", "far": outside, "file": "../outside/secret", "farfile": outside + "/secret",
		"sub/up": "../..", "sub/twice": "deeper/../../../outside", "chain": "out", "etc": "/etc", "top": "/",
		"self": "sub", "back": "sub/../in", "abs": root + "/sub", "absfile": root + "/sub/in", "sub/sideways": "../in",
		"loop": "loop", "dangling": "nowhere", "farnew": outside + "/new", "proc": "/proc/self/root",
	} {
		if err := os.Symlink(to, root+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	return root, outside
}

// snapshot is everything below a directory.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content += " " + string(data)
		}
		out[p] = content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// operations are all that an FS can do with a name, each as it would succeed on a
// file or directory that is there.
func operations(ctx context.Context, f *localfs.FS) map[string]func(name string) error {
	first := func(seq func(func(files.Info, error) bool)) (err error) {
		for _, err = range seq {
			break
		}
		return err
	}
	batch := func(name string) error {
		_, err := f.WriteBatch(ctx, func(yield func(files.BatchFile, error) bool) {
			yield(files.BatchFile{Name: name, Size: 1, Src: strings.NewReader("x")}, nil)
		}, files.BatchOptions{})
		return err
	}
	return map[string]func(name string) error{
		"open": func(name string) error {
			file, err := f.Open(ctx, name, files.OpenOptions{})
			if err == nil {
				file.Close()
			}
			return err
		},
		"stat": func(name string) error {
			_, err := f.Stat(ctx, name, files.StatOptions{Follow: true})
			return err
		},
		"list":  func(name string) error { return first(f.List(ctx, name)) },
		"names": func(name string) error { return first(f.Names(ctx, name, files.NamesOptions{})) },
		"glob": func(name string) (err error) {
			for _, err = range files.Glob(ctx, f, files.GlobOptions{Dir: name, Gitignore: true}) {
				break
			}
			return err
		},
		"resolve": func(name string) error { _, err := f.Resolve(ctx, name); return err },
		"chmod":   func(name string) error { return f.Chmod(ctx, name, 0o777) },
		"write":   func(name string) error { return f.Write(ctx, name, strings.NewReader("x"), 1, files.WriteOptions{}) },
		"batch":   batch,
		"copy from": func(name string) error {
			err := f.Copy(ctx, name+"/.", "copied", files.CopyOptions{Recursive: true})
			if spec.CodeOf(err) == spec.CodeNotDirectory {
				err = f.Copy(ctx, name, "copied", files.CopyOptions{Recursive: true})
			}
			return err
		},
	}
}

// below are those operations that need a name in a directory.
func below(ctx context.Context, f *localfs.FS) map[string]func(dir string) error {
	return map[string]func(dir string) error{
		"stat": func(dir string) error { _, err := f.Stat(ctx, dir+"/secret", files.StatOptions{}); return err },
		"open": func(dir string) error {
			_, err := f.Open(ctx, dir+"/secret", files.OpenOptions{NoFollow: true})
			return err
		},
		"write": func(dir string) error {
			return f.Write(ctx, dir+"/new", strings.NewReader("x"), 1, files.WriteOptions{})
		},
		"write deeper": func(dir string) error {
			return f.Write(ctx, dir+"/a/b", strings.NewReader("x"), 1, files.WriteOptions{})
		},
		"mkdir":         func(dir string) error { return f.Mkdir(ctx, dir+"/new", files.MkdirOptions{}) },
		"mkdir parents": func(dir string) error { return f.Mkdir(ctx, dir+"/new/deeper", files.MkdirOptions{Parents: true}) },
		"remove":        func(dir string) error { return f.Remove(ctx, dir+"/secret", files.RemoveOptions{}) },
		"remove all":    func(dir string) error { return f.Remove(ctx, dir+"/dir", files.RemoveOptions{Recursive: true}) },
		"rename from":   func(dir string) error { return f.Rename(ctx, dir+"/secret", "stolen", files.RenameOptions{}) },
		"rename to":     func(dir string) error { return f.Rename(ctx, "in", dir+"/in", files.RenameOptions{}) },
		"copy from":     func(dir string) error { return f.Copy(ctx, dir+"/secret", "stolen", files.CopyOptions{}) },
		"copy to":       func(dir string) error { return f.Copy(ctx, "in", dir+"/in", files.CopyOptions{}) },
		"copy tree to": func(dir string) error {
			return f.Copy(ctx, "sub", dir+"/sub", files.CopyOptions{Recursive: true, Overwrite: true})
		},
	}
}

// A name that leads out of the root, by its text or through a link, is
// CodeInvalidPath for every operation, and nothing outside is touched.
func TestRootedRefuses(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		root, outside := prison(t)
		f := open(root, root)
		before, inside := snapshot(t, filepath.Dir(outside)), snapshot(t, root)
		dirs := []string{
			"..", "../outside", "sub/../../outside", outside, root + "/../outside", "/", "/etc", "/proc/self/root" + outside, root + "kit",
			"up", "up/outside", "out", "out/", "out/.", "far", "far/../outside", "sub/up", "sub/up/outside", "sub/twice", "chain", "etc", "top",
			"top" + outside, "self/../../outside", "self/up/outside", "abs/../../outside", "proc", "farnew/x",
		}
		for name, op := range operations(t.Context(), f) {
			for _, dir := range append(slices.Clone(dirs), "file", "farfile", "out/secret", "far/dir/secret") {
				wantCode(t, name+" "+dir, op(dir), spec.CodeInvalidPath)
			}
		}
		for name, op := range below(t.Context(), f) {
			for _, dir := range dirs {
				wantCode(t, name+" in "+dir, op(dir), spec.CodeInvalidPath)
			}
		}
		if after := snapshot(t, filepath.Dir(outside)); !maps.Equal(before, after) {
			t.Errorf("something was touched: %v, before %v", after, before)
		}
		if after := snapshot(t, root); !maps.Equal(inside, after) {
			t.Errorf("something inside was touched: %v, before %v", after, inside)
		}
	})
}

// What stays inside the root is reached through any link and by any spelling.
func TestRootedReaches(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		root, _ := prison(t)
		alias := filepath.Dir(root) + "/alias"
		if err := os.Symlink(root, alias); err != nil {
			t.Fatal(err)
		}
		f := open(root+"/sub", alias)
		for _, name := range []string{
			"in", "./in", "../in", "deeper/../in", root + "/in", alias + "/in", "/" + root + "//in", root + "/self/in", root + "/back",
			root + "/abs/in", root + "/absfile", "sideways", "../self/../in", root + "/sub/deeper/../../self/in", "/." + root + "/./in",
		} {
			got, err := files.ReadFile(t.Context(), f, name, 0)
			if err != nil || string(got) != "inside" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		for name, want := range map[string]spec.Code{
			"missing": spec.CodeFileNotFound, "../dangling": spec.CodeFileNotFound, "../dangling/x": spec.CodeNotDirectory, "in/x": spec.CodeNotDirectory,
			"../loop": spec.CodeInvalidPath, "deeper": spec.CodeIsDirectory,
		} {
			_, err := files.ReadFile(t.Context(), f, name, 0)
			wantCode(t, name, err, want)
		}
		// A link is an entry of its directory, wherever it leads.
		for _, link := range []string{"out", "far", "etc", "dangling"} {
			info, err := f.Stat(t.Context(), root+"/"+link, files.StatOptions{})
			if err != nil || info.Mode.Type() != fs.ModeSymlink || info.Target == "" {
				t.Errorf("stat %s: %+v, %v", link, info, err)
			}
			if err := f.Rename(t.Context(), root+"/"+link, root+"/moved", files.RenameOptions{}); err != nil {
				t.Errorf("rename %s: %v", link, err)
			}
			if err := f.Remove(t.Context(), root+"/moved", files.RemoveOptions{}); err != nil {
				t.Errorf("remove %s: %v", link, err)
			}
		}
		if info, err := f.Stat(t.Context(), root, files.StatOptions{}); err != nil || !info.IsDir() || info.Name != "root" {
			t.Errorf("the root itself: %+v, %v", info, err)
		}
	})
}

// A root that is renamed and replaced is kept to as the directory that it was.
func TestRootedKeepsTheDirectory(t *testing.T) {
	root, outside := prison(t)
	f := rooted(t, root, root)
	if err := errors.Join(os.Rename(root, root+"-moved"), os.Symlink(outside, root)); err != nil {
		t.Fatal(err)
	}
	if got, err := files.ReadFile(t.Context(), f, "in", 0); err != nil || string(got) != "inside" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := files.ReadFile(t.Context(), f, "secret", 0)
	wantCode(t, "what lies at the old name", err, spec.CodeFileNotFound)
}

// A root that is missing or no directory is CodeInvalidPath.
func TestRootedNeedsADirectory(t *testing.T) {
	root, _ := prison(t)
	for _, dir := range []string{root + "/missing", root + "/in"} {
		_, err := localfs.NewRooted(root, dir)
		wantCode(t, dir, err, spec.CodeInvalidPath)
	}
}

// Whoever swaps directories for links while a path is followed does not make it lead
// out.
func TestRootedAgainstASwapper(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		root, outside := prison(t)
		if err := errors.Join(os.Mkdir(root+"/swap", 0o755), os.WriteFile(root+"/swap/secret", []byte("inside"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, root+"/evil"); err != nil {
			t.Fatal(err)
		}
		f := open(root, root)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, root+"/swap", unix.AT_FDCWD, root+"/evil", unix.RENAME_EXCHANGE)
				}
			}
		}()
		read, refused := 0, 0
		for range 3000 {
			file, err := f.Open(t.Context(), "swap/secret", files.OpenOptions{})
			if err != nil {
				if spec.CodeOf(err) != spec.CodeInvalidPath {
					t.Fatal(err)
				}
				refused++
				continue
			}
			got, err := io.ReadAll(file)
			file.Close()
			if err != nil || string(got) != "inside" {
				t.Fatalf("read %q, %v", got, err)
			}
			read++
			_ = f.Write(t.Context(), "swap/new", strings.NewReader("x"), 1, files.WriteOptions{})
		}
		close(stop)
		<-done
		if _, err := os.Stat(outside + "/new"); err == nil {
			t.Error("a write has landed outside")
		}
		t.Logf("%d read, %d refused", read, refused)
	})
}
