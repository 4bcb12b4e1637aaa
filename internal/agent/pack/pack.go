//go:build linux

package pack

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Main writes what lies in the directory that args name to stdout and returns the exit
// status. Behind the archive there is a line with its length.
func Main(args []string) int {
	err := errors.New("usage: berth-guest pack DIRECTORY")
	if len(args) == 1 {
		out := bufio.NewWriterSize(os.Stdout, 64<<10)
		counted := &counting{w: out}
		if err = Write(counted, args[0]); err == nil {
			// Behind the end of an archive nobody looks but for who wants to know whether it
			// has come whole.
			_, err = fmt.Fprintf(out, "whole:%020d\n", counted.n)
		}
		err = errors.Join(err, out.Flush())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "berth-guest:", err)
		return 1
	}
	return 0
}

// Write archives what lies in dir, but not dir itself: regular files, directories, links,
// pipes and devices with owners, modes, times, hard links and extended attributes. Sockets are
// left out, as nobody listens on one that comes back. Nothing may change in there meanwhile: a
// file that does is an error.
func Write(out io.Writer, dir string) error {
	w := &writer{dir: dir, tar: tar.NewWriter(out), linked: map[inode]string{}}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return w.add(path, e)
	})
	if err != nil {
		return err
	}
	return w.tar.Close()
}

type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type inode struct{ dev, ino uint64 }

type writer struct {
	dir    string
	tar    *tar.Writer
	linked map[inode]string // the first names of files that have several
}

func (w *writer) add(path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || info.Mode()&fs.ModeSocket != 0 {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(w.dir, path)
	if err != nil {
		return err
	}
	h.Name, h.Format = name, tar.FormatPAX // names of any bytes, times to the nanosecond
	if info.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname = "", "" // the numbers are what counts
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if at := (inode{st.Dev, st.Ino}); !info.IsDir() && st.Nlink > 1 {
		if first, ok := w.linked[at]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return w.tar.WriteHeader(h)
		}
		w.linked[at] = name
	}
	if h.PAXRecords, err = attributes(path); err != nil {
		return err
	}
	if err := w.tar.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	return w.content(path, h.Size)
}

func (w *writer) content(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := io.CopyN(w.tar, f, size); err != nil {
		return fmt.Errorf("%s: %d bytes of %d: %w", path, n, size, err)
	}
	return nil
}

// attributes are the extended attributes of a file as records of an archive. A file system
// without any is none that fails.
func attributes(path string) (map[string]string, error) {
	names := make([]byte, 64<<10) // the kernel's own bound
	n, err := unix.Llistxattr(path, names)
	if errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	records := map[string]string{}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil {
			return nil, &fs.PathError{Op: "lgetxattr", Path: path, Err: err}
		}
		records["SCHILY.xattr."+name] = string(value[:n])
	}
	return records, nil
}
