package direct

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// dirName holds the directories of all engines.
	dirName = "direct"
	// bell is the FIFO by which a guest is told of a socket, and suffix ends the name of one
	// that is ready.
	bell   = "bell"
	suffix = ".sock"
	// staleSocket is an age that no socket in use has.
	staleSocket = time.Minute
)

// base is the directory of all engines, as an engine names it after it has followed links.
func (d *Dirs) base() string {
	state, err := filepath.EvalSymlinks(d.State)
	if err != nil {
		state = d.State
	}
	return filepath.Join(state, dirName)
}

// locate finds out which engine it is. It fails where its socket, or whoever listens there, is
// not on this machine.
func (d *Dirs) locate(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.group != "" {
		return nil
	}
	listener, err := d.listener(ctx)
	if err != nil {
		return err
	}
	chain, err := pids(int(listener.cred.Pid))
	if err != nil {
		return err
	}
	store := listener.path
	if d.Engine.StorePerUser {
		store = strconv.Itoa(int(listener.cred.Uid))
	}
	sum := sha256.Sum256([]byte(d.Engine.Name + " " + store))
	d.group, d.depth = hex.EncodeToString(sum[:nameBytes]), len(chain)
	return nil
}

// open opens the directory of the engine's containers, which nobody else may write to.
func (d *Dirs) open() (*os.Root, error) {
	d.mu.Lock()
	base, group := d.base(), d.group
	d.mu.Unlock()
	for _, dir := range []string{base, filepath.Join(base, group)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		st, err := os.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if !private(st) {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrPermission}
		}
	}
	return os.OpenRoot(filepath.Join(base, group))
}

// private reports whether st is a directory that only this user can write to.
func private(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && st.IsDir() && int(sys.Uid) == os.Geteuid() && st.Mode().Perm()&0o022 == 0
}

// Make makes a directory for a container and returns its name; "" where there can be none.
func (d *Dirs) Make(ctx context.Context) string {
	if d.State == "" || d.locate(ctx) != nil {
		return ""
	}
	name := newName()
	if err := d.Ensure(name); err != nil || !d.seen(ctx, name) {
		d.Remove(name)
		return ""
	}
	return name
}

// seen reports whether the engine may find a directory where it is here. One that has another
// root does not, and some make an empty directory of what they do not find. Of another user's
// process nothing is to be seen: then it has to be tried.
func (d *Dirs) seen(ctx context.Context, name string) bool {
	listener, err := d.listener(ctx)
	if err != nil {
		return false
	}
	theirs, err := os.Stat("/proc/" + strconv.Itoa(int(listener.cred.Pid)) + "/root" + d.Path(name))
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	ours, err := os.Stat(d.Path(name))
	return err == nil && os.SameFile(ours, theirs)
}

// Lacks reports whether it is certain that a path is not there where the engine is.
func (d *Dirs) Lacks(ctx context.Context, path string) bool {
	listener, err := d.listener(ctx)
	if err != nil {
		return false
	}
	_, err = os.Lstat("/proc/" + strconv.Itoa(int(listener.cred.Pid)) + "/root" + path)
	return errors.Is(err, fs.ErrNotExist)
}

// listener is who listens on an engine's socket.
type listener struct {
	cred *unix.Ucred
	path string
}

func (d *Dirs) listener(ctx context.Context) (listener, error) {
	conn, err := d.Engine.Socket(ctx)
	if err != nil {
		return listener{}, err
	}
	defer conn.Close()
	cred, err := credentials(conn)
	return listener{cred, conn.RemoteAddr().String()}, err
}

// Ensure makes the directory of a name, if that is not "", unless it is there.
func (d *Dirs) Ensure(name string) error {
	if name == "" {
		return nil
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Mknodat(int(dir.Fd()), bell, unix.S_IFIFO|0o644, 0)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	// Whatever the umask is, the container's user has to see what is there.
	return errors.Join(err, dir.Chmod(0o755), unix.Fchmodat(int(dir.Fd()), bell, 0o644, 0))
}

// Remove removes the directory of a name, if it is there.
func (d *Dirs) Remove(name string) {
	if !isName(name) {
		return
	}
	if root, err := d.open(); err == nil {
		_ = root.RemoveAll(name) // what is left Prune finds
		root.Close()
	}
}

// alive reports whether a guest listens for the bell of a directory.
func (d *Dirs) alive(name string) bool {
	root, err := d.open()
	if err != nil {
		return false
	}
	defer root.Close()
	dir, err := root.Open(name)
	if err != nil {
		return false
	}
	defer dir.Close()
	return ring(dir)
}

// ring tells the guest to look. It reports whether anybody may have heard.
func ring(dir *os.File) bool {
	fd, err := unix.Openat(int(dir.Fd()), bell, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // nobody has it open to be read
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte{'\n'})
	return err == nil
}

// old returns the names of the directories that are older than an age.
func (d *Dirs) old(age time.Duration) map[string]bool {
	names := map[string]bool{}
	root, err := d.open()
	if err != nil {
		return names
	}
	defer root.Close()
	entries, _ := fs.ReadDir(root.FS(), ".") // those that it could read
	for _, e := range entries {
		st, err := e.Info()
		if err == nil && isName(e.Name()) && time.Since(st.ModTime()) > age {
			names[e.Name()] = true
		}
	}
	return names
}

// sweep removes the sockets whose makers were killed.
func sweep(dir *os.Root) {
	entries, _ := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		st, err := e.Info()
		if err == nil && st.Mode()&fs.ModeSocket != 0 && time.Since(st.ModTime()) > staleSocket {
			_ = dir.Remove(e.Name())
		}
	}
}
