package repository

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinkBytes bounds what is read of the files by which the directories of git point at
// each other.
const maxLinkBytes = 4 << 10

// shape are the parts without which git takes no directory for a repository.
var shape = map[string]fs.FileMode{"HEAD": 0, "objects": fs.ModeDir, "refs": fs.ModeDir}

// Is reports whether dir is what git takes for a repository, made of real files and
// directories.
func Is(dir string) bool {
	for name, want := range shape {
		if !exists(dir, name, want) {
			return false
		}
	}
	return true
}

// Wants returns the names that have to be made in dir before git takes it for a repository:
// none where it may do so already. Whoever is told when one of them is made is told of the
// repository: its other parts may lie where its commondir says.
func Wants(dir string) []string {
	there := func(name string) bool { return exists(dir, name, fs.ModeIrregular) }
	switch {
	case !there("HEAD"):
		return []string{"HEAD"}
	case there("commondir"):
		return nil
	case !there("objects"):
		return []string{"commondir", "objects"}
	case !there("refs"):
		return []string{"commondir", "refs"}
	}
	return nil
}

// exists reports whether dir has such an entry; of ModeIrregular, whatever it is.
func exists(dir, name string, want fs.FileMode) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && (want == fs.ModeIrregular || info.Mode().Type() == want)
}

// Pointer returns the path that a small file holds behind a prefix. It is relative to dir,
// and is not followed. "": the file holds none.
func Pointer(file, dir, prefix string) (string, error) {
	text, err := ReadSmall(file, maxLinkBytes)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	switch {
	case !ok || path == "":
		return "", nil
	case filepath.IsAbs(path):
		return path, nil
	}
	return dir + "/" + path, nil // not joined: a link may lie before a ".."
}

// ReadSmall reads a regular file of at most so many bytes that a command may have put
// there: it waits for no pipe, touches no device and reads no more than it should.
func ReadSmall(path string, most int64) (string, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !before.Mode().IsRegular() || before.Size() > most {
		return "", &fs.PathError{Op: "read", Path: path, Err: syscall.EINVAL}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = &fs.PathError{Op: "read", Path: path, Err: syscall.EINVAL}
	}
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	return string(data), err
}
