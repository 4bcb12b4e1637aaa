//go:build linux

package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// An archive has whatever lies in a directory, each with its owner, mode, time and attributes,
// and hard links as such; the directory itself and sockets are not in it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 4711, 4712
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	listener, err := net.Listen("unix", in("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = errors.Join(
		os.Mkdir(in("dir"), 0o700), os.WriteFile(in("dir/\xff\n"), []byte("text"), 0o600), os.Link(in("dir/\xff\n"), in("hard")),
		os.Symlink("../nowhere", in("link")), unix.Mkfifo(in("pipe"), 0o640), os.WriteFile(in("set"), nil, 0o600),
		os.Chmod(in("set"), 0o755|os.ModeSetuid), os.Chmod(in("dir"), 0o750|os.ModeSticky),
		unix.Lsetxattr(in("set"), "user.note", []byte("a\x00b"), 0),
		os.Lchown(in("link"), uid, gid), os.Lchown(in("dir/\xff\n"), uid, gid),
	)
	for _, name := range []string{"dir/\xff\n", "set", "dir"} {
		err = errors.Join(err, os.Chtimes(in(name), at, at))
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Write(&out, dir); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Type       byte
		Mode       int64
		UID, GID   int
		Link, Text string
		Note       string
		Time       time.Time
	}
	got := map[string]entry{}
	archive := tar.NewReader(&out)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		e := entry{h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname, string(text), h.PAXRecords["SCHILY.xattr.user.note"], h.ModTime.UTC()}
		if h.Name == "link" || h.Name == "pipe" {
			e.Time = time.Time{}
		}
		got[h.Name] = e
	}
	me, mine := os.Getuid(), os.Getgid()
	want := map[string]entry{
		"dir/":       {tar.TypeDir, 0o1750, me, mine, "", "", "", at},
		"dir/\xff\n": {tar.TypeReg, 0o600, uid, gid, "", "text", "", at},
		"hard":       {tar.TypeLink, 0o600, uid, gid, "dir/\xff\n", "", "", at},
		"link":       {tar.TypeSymlink, 0o777, uid, gid, "../nowhere", "", "", time.Time{}},
		"pipe":       {tar.TypeFifo, 0o640 &^ umask(), me, mine, "", "", "", time.Time{}},
		"set":        {tar.TypeReg, 0o4755, me, mine, "", "", "a\x00b", at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func umask() int64 {
	old := unix.Umask(0)
	unix.Umask(old)
	return int64(old)
}

// A file that cannot be read whole is an error, and the archive has no end.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "grows")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &shortening{name: name}
	if err := Write(out, dir); !errors.Is(err, io.EOF) {
		t.Errorf("a file that shrinks: %v; want the end of it", err)
	}
	if err := Write(io.Discard, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// shortening truncates a file while it is archived.
type shortening struct{ name string }

func (s *shortening) Write(p []byte) (int, error) { return len(p), os.Truncate(s.name, 1000) }
