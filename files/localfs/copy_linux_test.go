package localfs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

var whole = files.CopyOptions{Recursive: true}

// A directory is copied with all in it: modes, links as links, hostile names, and a
// mode that forbids writing only in the end.
func TestCopyTree(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	long := strings.Repeat("n", 255)
	for _, d := range []string{"src/a", "src/empty", "src/" + long} {
		if err := os.MkdirAll(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	big := strings.Repeat("0123456789abcdef", 1<<16)
	for name, content := range map[string]string{"src/a/f": "f", "src/\xff\n": "bytes", "src/" + long + "/" + long: "long", "src/big": big, "src/none": ""} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Symlink("/nowhere", dir+"/src/a/link"), os.Symlink("a", dir+"/src/todir"), os.Chmod(dir+"/src/a/f", 0o751), os.Chmod(dir+"/src/a", 0o555), os.Chmod(dir+"/src/empty", 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Copy(t.Context(), "src", "made/dst", whole); err != nil {
		t.Fatal(err)
	}
	want := snapshot(t, dir+"/src")
	got := snapshot(t, dir+"/made/dst")
	if len(got) != len(want) {
		t.Errorf("%d files are copied of %d", len(got), len(want))
	}
	for name, content := range want {
		if copied := got[dir+"/made/dst"+strings.TrimPrefix(name, dir+"/src")]; copied != content {
			t.Errorf("%.80q is %.80q, want %.80q", name, copied, content)
		}
	}
	for link, to := range map[string]string{"a/link": "/nowhere", "todir": "a"} {
		if got, err := os.Readlink(dir + "/made/dst/" + link); err != nil || got != to {
			t.Errorf("link %s leads to %q, %v", link, got, err)
		}
	}
}

// A tree deeper than a path may be long is copied with few descriptors.
func TestCopyDeep(t *testing.T) {
	dir := tempDir(t)
	const levels = 300
	elem := strings.Repeat("d", 40)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkdirat(fd, "src", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range levels {
		name := elem
		if i == 0 {
			name = "src"
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
		if err := unix.Mkdirat(fd, elem, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a", "z"} {
			f, err := unix.Openat(fd, file, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(f)
		}
	}
	unix.Close(fd)
	fsys := localfs.New(dir)
	defer func() {
		for _, name := range []string{"src", "dst"} {
			if err := fsys.Remove(context.Background(), name, files.RemoveOptions{Recursive: true}); err != nil {
				t.Error(err)
			}
		}
	}()
	before := openFiles(t)
	if err := fsys.Copy(t.Context(), "src", "dst", whole); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
	count := func(name string) string {
		out, err := shell(t.Context(), "cd "+dir+" && find "+name+" | wc -l")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if src, dst := count("src"), count("dst"); src != dst {
		t.Errorf("%s files are copied of %s", dst, src)
	}
}

// What must not be copied is refused, and says of what it speaks.
func TestCopyRefuses(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	err := errors.Join(os.MkdirAll(dir+"/d/sub", 0o755), os.MkdirAll(dir+"/full/d", 0o755), os.WriteFile(dir+"/f", []byte("f"), 0o644),
		os.Symlink("d", dir+"/link"), os.Symlink(".", dir+"/d/self"), unix.Mkfifo(dir+"/fifo", 0o644), os.MkdirAll(dir+"/special/sub", 0o755), unix.Mkfifo(dir+"/special/sub/fifo", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	over := files.CopyOptions{Recursive: true, Overwrite: true}
	for _, tt := range []struct {
		from, to string
		o        files.CopyOptions
		code     spec.Code
		path     string
	}{
		{"missing", "x", whole, spec.CodeFileNotFound, "missing"},
		{"d", "x", files.CopyOptions{}, spec.CodeIsDirectory, "d"},
		{"fifo", "new/x", over, spec.CodeNotRegular, "fifo"},
		{"special", "special2", over, spec.CodeNotRegular, "special/sub/fifo"},
		{"/dev/null", "x", over, spec.CodeNotRegular, "/dev/null"},
		{"f", "f", whole, spec.CodeExists, "f"},
		{"f", "d", whole, spec.CodeExists, "d"},
		{"f", "d", over, spec.CodeIsDirectory, "d"},
		{"f", "link", over, spec.CodeIsDirectory, "link"},
		{"link", "f", whole, spec.CodeExists, "f"},
		{"d", "full", whole, spec.CodeExists, "full"},
		{"d", "f", whole, spec.CodeExists, "f"},
		{"d", "f", over, spec.CodeNotDirectory, "f"},
		{"d", "d", over, spec.CodeInvalid, "d"},
		{"d", "d/inside", over, spec.CodeInvalid, "d/inside"},
		{"d", "d/sub/deep/er", over, spec.CodeInvalid, "d/sub/deep/er"},
		{"d", "link/inside", over, spec.CodeInvalid, "link/inside"},
		{"d", "d/self/self/inside", over, spec.CodeInvalid, "d/self/self/inside"},
		{".", "d/inside", over, spec.CodeInvalid, "d/inside"},
		{"f/", "x", over, spec.CodeNotDirectory, "f/"},
		{"f", "f/x", over, spec.CodeNotDirectory, "f/x"},
		{"", "x", over, spec.CodeInvalidPath, ""},
		{"f", "", over, spec.CodeInvalidPath, ""},
		{"f", "a\x00b", over, spec.CodeInvalidPath, "a\x00b"},
	} {
		err := fsys.Copy(t.Context(), tt.from, tt.to, tt.o)
		wantCode(t, tt.from+" to "+tt.to, err, tt.code)
		var e *spec.Error
		if errors.As(err, &e) && e.Path != tt.path {
			t.Errorf("%s to %s: the path is %q, want %q", tt.from, tt.to, e.Path, tt.path)
		}
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := os.Stat(dir + "/new"); err == nil {
		t.Error("a directory was made for what cannot be copied")
	}
}

// leftovers are the temporary files below a directory.
func leftovers(t *testing.T, dir string) (left []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".berth-write-") {
			left = append(left, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// With Overwrite a file or link is replaced, and a directory filled; what was there
// and is not copied stays, and no link in it is followed.
func TestCopyOver(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	err := errors.Join(os.MkdirAll(dir+"/src/both", 0o755), os.MkdirAll(dir+"/dst/both", 0o755), os.Mkdir(dir+"/elsewhere", 0o755),
		os.WriteFile(dir+"/src/both/f", []byte("new"), 0o600), os.WriteFile(dir+"/dst/both/f", []byte("old"), 0o644), os.WriteFile(dir+"/dst/both/kept", nil, 0o644),
		os.WriteFile(dir+"/src/l", []byte("new"), 0o644), os.Symlink("../elsewhere/x", dir+"/dst/l"), os.Symlink("/nowhere", dir+"/src/m"), os.WriteFile(dir+"/dst/m", nil, 0o644),
		os.Symlink("dst", dir+"/link"))
	if err != nil {
		t.Fatal(err)
	}
	over := files.CopyOptions{Recursive: true, Overwrite: true}
	if err := fsys.Copy(t.Context(), "src", "link", over); err != nil {
		t.Fatal(err)
	}
	got := snapshot(t, dir+"/dst")
	for name, want := range map[string]string{"both/f": "-rw------- new", "both/kept": "-rw-r--r-- ", "l": "-rw-r--r-- new"} {
		if got[dir+"/dst/"+name] != want {
			t.Errorf("%s is %q, want %q", name, got[dir+"/dst/"+name], want)
		}
	}
	if to, _ := os.Readlink(dir + "/dst/m"); to != "/nowhere" {
		t.Errorf("m leads to %q", to)
	}
	if left := names(t, dir+"/elsewhere"); len(left) > 0 {
		t.Errorf("a link was followed: %q", left)
	}
	// A link where a directory of the copy is to be is not one.
	if err := errors.Join(os.RemoveAll(dir+"/dst/both"), os.Symlink("../elsewhere", dir+"/dst/both")); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "onto a link", fsys.Copy(t.Context(), "src", "dst", over), spec.CodeNotDirectory)
	if left := names(t, dir+"/elsewhere"); len(left) > 0 {
		t.Errorf("a link was followed: %q", left)
	}
}

// Of many copies to one new name one wins, and the others find the name taken.
func TestCopyNeverOverwrites(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	if err := os.WriteFile(dir+"/src", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var all sync.WaitGroup
		results := make(chan error, 8)
		for range cap(results) {
			all.Go(func() { results <- fsys.Copy(t.Context(), "src", "dst", files.CopyOptions{}) })
		}
		all.Wait()
		close(results)
		won := 0
		for err := range results {
			if err == nil {
				won++
			} else if spec.CodeOf(err) != spec.CodeExists {
				t.Error(err)
			}
		}
		if won != 1 {
			t.Fatalf("%d copies have won", won)
		}
		if err := os.Remove(dir + "/dst"); err != nil {
			t.Fatal(err)
		}
	}
}

// A copy that finds no space is CodeNoSpace and leaves the target and no temporary
// file; one that is cancelled leaves none either.
func TestCopyThatEndsEarly(t *testing.T) {
	needRoot(t)
	dir, inner := inside(t, "space", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	if !inner {
		return
	}
	privateMounts(t)
	mountTmpfs(t, dir, "size=4m")
	fsys := localfs.New(dir)
	if err := errors.Join(os.WriteFile(dir+"/big", make([]byte, 3<<20), 0o644), os.WriteFile(dir+"/f", []byte("kept"), 0o644)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "copy more than fits", fsys.Copy(t.Context(), "big", "f", files.CopyOptions{Overwrite: true}), spec.CodeNoSpace)
	if got, err := os.ReadFile(dir + "/f"); string(got) != "kept" {
		t.Errorf("the target holds %q, %v", got, err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if err := fsys.Copy(ctx, "f", "g", files.CopyOptions{}); err != context.DeadlineExceeded {
		t.Errorf("a copy that begins too late: %v", err)
	}
}

// The kernel's own files have no size; what they hold is copied all the same.
func TestCopyOfAKernelFile(t *testing.T) {
	dir := tempDir(t)
	if err := localfs.New(dir).Copy(t.Context(), "/proc/version", "v", files.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	want, _ := os.ReadFile("/proc/version")
	if got, err := os.ReadFile(dir + "/v"); string(got) != string(want) {
		t.Errorf("%q, %v", got, err)
	}
}
