package localfs_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

func writeString(t *testing.T, fsys files.FS, name, content string, o files.WriteOptions) error {
	t.Helper()
	return files.WriteFile(t.Context(), fsys, name, []byte(content), o)
}

func wantCode(t *testing.T, what string, err error, want spec.Code) {
	t.Helper()
	var e *spec.Error
	if !errors.As(err, &e) || e.Code != want {
		t.Errorf("%s: %v, want code %s", what, err, want)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A write that finds no space is CodeNoSpace, and leaves the target and no
// temporary file.
func TestWriteWithoutSpace(t *testing.T) {
	needRoot(t)
	dir, inner := inside(t, "space", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	if !inner {
		return
	}
	privateMounts(t)
	mountTmpfs(t, dir, "size=256k,nr_inodes=4")
	fsys := localfs.New(dir)
	if err := writeString(t, fsys, "f", "kept", files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "new"} {
		wantCode(t, "write more than fits", writeString(t, fsys, name, strings.Repeat("x", 1<<20), files.WriteOptions{}), spec.CodeNoSpace)
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "f" {
		t.Errorf("the directory holds %q, want f alone", got)
	}
	for _, name := range []string{"2", "3"} {
		if err := writeString(t, fsys, name, "x", files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, "write without an inode left", writeString(t, fsys, "4", "x", files.WriteOptions{}), spec.CodeNoSpace)
	wantCode(t, "mkdir without an inode left", fsys.Mkdir(t.Context(), "d", files.MkdirOptions{}), spec.CodeNoSpace)
}

// A mount point is CodeNotReplaceable, a read-only file system CodeNotWritable, and
// a rename does not cross file systems.
func TestMounts(t *testing.T) {
	needRoot(t)
	dir, inner := inside(t, "mounts", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	if !inner {
		return
	}
	privateMounts(t)
	mountTmpfs(t, dir, "")
	fsys := localfs.New(dir)
	for _, name := range []string{"under", "over", "d/f", "ro/f"} {
		if err := writeString(t, fsys, name, name, files.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(dir+"/over", dir+"/under", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "write onto a mount point", writeString(t, fsys, "under", "x", files.WriteOptions{}), spec.CodeNotReplaceable)
	wantCode(t, "remove a mount point", fsys.Remove(t.Context(), "under", files.RemoveOptions{}), spec.CodeNotReplaceable)

	if err := os.Mkdir(dir+"/d/m", 0o755); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, dir+"/d/m", "")
	if err := writeString(t, fsys, "d/m/kept", "kept", files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "remove a tree with a mount in it", fsys.Remove(t.Context(), "d", files.RemoveOptions{Recursive: true}), spec.CodeNotReplaceable)
	if got := names(t, dir+"/d/m"); len(got) != 1 {
		t.Errorf("the mounted file system holds %q", got)
	}
	wantCode(t, "rename to another file system", fsys.Rename(t.Context(), "over", "d/m/over", files.RenameOptions{}), spec.CodeUnsupported)

	if err := unix.Mount(dir+"/ro", dir+"/ro", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir+"/ro", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "write to a read-only file system", writeString(t, fsys, "ro/f", "x", files.WriteOptions{}), spec.CodeNotWritable)
	wantCode(t, "write a parent to it", writeString(t, fsys, "ro/new/f", "x", files.WriteOptions{}), spec.CodeNotWritable)
	wantCode(t, "mkdir in it", fsys.Mkdir(t.Context(), "ro/d", files.MkdirOptions{}), spec.CodeNotWritable)
	wantCode(t, "remove in it", fsys.Remove(t.Context(), "ro/f", files.RemoveOptions{}), spec.CodeNotWritable)
}

// What permissions refuse is CodeNotWritable for a change and CodePermission for a
// read; both are fs.ErrPermission.
func TestPermissions(t *testing.T) {
	dir := ""
	if os.Getenv(insideEnv) == "" {
		needRoot(t)
		dir = openTempDir(t)
		for name, mode := range map[string]fs.FileMode{"shut": 0o700, "readonly": 0o755} {
			if err := os.Mkdir(dir+"/"+name, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir+"/"+name+"/f", []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir, inner := inside(t, "permissions", dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: anybody, Gid: anybody}})
	if !inner {
		return
	}
	fsys := localfs.New(dir)
	for what, err := range map[string]error{
		"write":       writeString(t, fsys, "readonly/f", "x", files.WriteOptions{}),
		"write new":   writeString(t, fsys, "readonly/new", "x", files.WriteOptions{}),
		"make parent": writeString(t, fsys, "readonly/new/f", "x", files.WriteOptions{}),
		"mkdir":       fsys.Mkdir(t.Context(), "readonly/d", files.MkdirOptions{}),
		"remove":      fsys.Remove(t.Context(), "readonly/f", files.RemoveOptions{}),
		"rename":      fsys.Rename(t.Context(), "readonly/f", "readonly/g", files.RenameOptions{}),
		"not reached": writeString(t, fsys, "shut/f", "x", files.WriteOptions{}),
	} {
		wantCode(t, what, err, spec.CodeNotWritable)
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v is not fs.ErrPermission", what, err)
		}
	}
	_, statErr := fsys.Stat(t.Context(), "shut/f", files.StatOptions{})
	_, readErr := files.ReadFile(t.Context(), fsys, "readonly/f", 0)
	_, listErr := files.ReadDir(t.Context(), fsys, "shut", 0)
	for what, err := range map[string]error{"stat": statErr, "read": readErr, "list": listErr} {
		wantCode(t, what, err, spec.CodePermission)
	}
}

// A socket is not opened and not replaced.
func TestSocket(t *testing.T) {
	dir := tempDir(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: dir + "/s"}); err != nil {
		t.Fatal(err)
	}
	fsys := localfs.New(dir)
	_, err = fsys.Open(t.Context(), "s", files.OpenOptions{})
	wantCode(t, "open a socket", err, spec.CodeNotRegular)
	wantCode(t, "write a socket", writeString(t, fsys, "s", "x", files.WriteOptions{}), spec.CodeNotReplaceable)
}

// A write that kills its process leaves the old bytes or the new ones.
func TestWriteSurvivesKill(t *testing.T) {
	dir, inner := os.Getenv(insideEnv), false
	if _, argument, ok := strings.Cut(dir, "="); ok {
		dir, inner = argument, true
	}
	const size = 300_000
	if inner {
		fsys := localfs.New(dir)
		for i := 0; ; i++ {
			content := bytes.Repeat([]byte{byte('a' + i%26)}, size)
			if err := files.WriteFile(context.Background(), fsys, "f", content, files.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir = tempDir(t)
	for i := range 20 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), insideEnv+"=kill="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for first, _ := os.Stat(dir + "/f"); ; { // until it has written once more
			now, err := os.Stat(dir + "/f")
			if err == nil && (first == nil || !os.SameFile(first, now)) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(i) * 300 * time.Microsecond) // a different moment each time
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		got, err := os.ReadFile(dir + "/f")
		if err != nil || len(got) != size || !bytes.Equal(got, bytes.Repeat(got[:1], size)) {
			t.Fatalf("after a kill the file has %d bytes, err %v", len(got), err)
		}
	}
	left, err := filepath.Glob(dir + "/.berth-write-*")
	if err != nil || len(left)+1 != len(names(t, dir)) {
		t.Errorf("beside temporary files the directory holds %q, %v", names(t, dir), err)
	}
}

// Running out of descriptors is CodeUnavailable, and no reason to answer wrongly.
func TestWithoutDescriptors(t *testing.T) {
	dir, inner := inside(t, "descriptors", tempDir(t), nil)
	if !inner {
		return
	}
	fsys := localfs.New(dir)
	if err := writeString(t, fsys, "d/f", "f", files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var held []int
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	for {
		fd, err := unix.Open("/", unix.O_PATH, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	_, openErr := fsys.Open(t.Context(), "d/f", files.OpenOptions{})
	_, listErr := files.ReadDir(t.Context(), fsys, "d", 0)
	writeErr := writeString(t, fsys, "d/g", "g", files.WriteOptions{})
	removeErr := fsys.Remove(t.Context(), "d", files.RemoveOptions{Recursive: true})
	for _, fd := range held {
		unix.Close(fd)
	}
	for what, err := range map[string]error{"open": openErr, "list": listErr, "write": writeErr, "remove": removeErr} {
		wantCode(t, what, err, spec.CodeUnavailable)
	}
	if got := names(t, dir+"/d"); len(got) != 1 || got[0] != "f" {
		t.Errorf("the directory holds %q, want f", got)
	}
}

// Two names of one file: an overwriting rename leaves the new one.
func TestRenameHardLink(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	if err := writeString(t, fsys, "a", "both", files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	if info, err := fsys.Stat(t.Context(), "a", files.StatOptions{}); err != nil || info.Links != 2 {
		t.Errorf("stat: %d links, %v", info.Links, err)
	}
	if err := fsys.Rename(t.Context(), "a", "b", files.RenameOptions{Overwrite: true}); err != nil {
		t.Errorf("rename: %v", err)
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "b" {
		t.Errorf("the directory holds %q, want b", got)
	}
}

// Writing one name of a file leaves its other names alone (a hard link to a secret
// outside cannot be written through).
func TestWriteBreaksHardLink(t *testing.T) {
	dir := tempDir(t)
	if err := os.WriteFile(dir+"/secret", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/secret", dir+"/f"); err != nil {
		t.Fatal(err)
	}
	if err := writeString(t, localfs.New(dir), "f", "new", files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(dir + "/secret"); string(got) != "secret" {
		t.Errorf("the other name holds %q", got)
	}
}
