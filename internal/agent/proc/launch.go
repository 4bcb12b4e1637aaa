//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/starter"
	"github.com/berth-dev/berth/internal/openat2"
	"github.com/berth-dev/berth/spec"
)

// defaultPath is where programs are looked up when not even the place has a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Launch is a program that is ready to be started.
type Launch struct {
	Path string
	Args []string
	Env  []string
	Dir  *Dir
	// User is whom it runs as; nil: as the guest.
	User *Identity
	// Setup is done before it begins; Self are the arguments that make the guest
	// binary call Become with what follows them.
	Setup Setup
	Self  []string
	// Terminal makes its standard input, a terminal, the controlling one of its session.
	Terminal bool
}

// Start starts the program as the leader of a new session, in group (nil: in the
// guest's own) and with files as its standard streams. It returns the group that the
// program is in: whatever keeps a process out of one does not keep it from running. Its
// error is a *spec.Error. It lasts no longer than other processes let it, and at most
// about startTime, but for an exec on a file system that hangs.
func (l *Launch) Start(r *Reaper, group *Group, files [3]*os.File) (*Process, *Group, error) {
	attr := &syscall.ProcAttr{Env: l.Env, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: l.Terminal}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if l.User != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: l.User.UID, Gid: l.User.GID, Groups: l.User.Groups}
	}
	if !l.Setup.empty() {
		return l.startBecoming(r, attr, group)
	}
	p, group, err := r.startIn(group, &starter.Program{Path: l.Path, Args: l.Args, Dir: l.Dir.FD, Attr: attr})
	return p, group, startError(l.Args[0], err)
}

const limitHint = "the place has reached a limit on processes, memory or open files"

// startError says why a program could not be started.
func startError(name string, err error) error {
	var errno syscall.Errno
	if err == nil || !errors.As(err, &errno) {
		return err
	}
	e := &spec.Error{Code: spec.CodeStartFailed, Path: name, Err: errno}
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		e.Code, e.Path, e.Hint = spec.CodeUnavailable, "", limitHint
	case syscall.E2BIG:
		e.Code, e.Path = spec.CodeTooLarge, ""
	case syscall.ENOENT:
		// LookProgram has seen the file.
		e.Err = fmt.Errorf("the program or its interpreter is missing: %w", errno)
	case syscall.ENOEXEC:
		e.Err = fmt.Errorf("neither a binary for this machine nor a script with a #! line: %w", errno)
	}
	return e
}

// SearchPath is the PATH of the first environment that has one.
func SearchPath(envs ...[]string) string {
	for _, env := range envs {
		for _, entry := range env {
			if path, ok := strings.CutPrefix(entry, "PATH="); ok {
				return path
			}
		}
	}
	return defaultPath
}

// LookProgram finds name as execvp would: with a slash it is taken as it is,
// without one each directory of path is tried; a relative one, and the empty one,
// is relative to the directory of the command.
func LookProgram(name, path string, dirFD int) (string, error) {
	fail := func(errno syscall.Errno) (string, error) {
		return "", &spec.Error{Code: spec.CodeStartFailed, Path: name, Err: errno}
	}
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range filepath.SplitList(path) {
			if dir == "" {
				dir = "."
			}
			candidates = append(candidates, strings.TrimRight(dir, "/")+"/"+name)
		}
	}
	worst := syscall.ENOENT
	for _, c := range candidates {
		var st unix.Stat_t
		if err := unix.Fstatat(dirFD, c, &st, 0); err != nil {
			if errno, ok := err.(syscall.Errno); ok && errno != syscall.ENOENT && errno != syscall.ENOTDIR {
				worst = errno
			}
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Faccessat(dirFD, c, unix.X_OK, unix.AT_EACCESS) == nil {
			return c, nil
		}
		worst = syscall.EACCES
	}
	return fail(worst)
}

// Dir is a directory that is held open, so that what was checked is where
// the command starts.
type Dir struct {
	FD   int
	Real string // its path as the kernel gives it
}

// OpenDir opens the directory in which a command is to start: dir, relative to
// workdir. What leads through /proc is refused: a descriptor there can lead out of
// the place.
func OpenDir(workdir, dir string) (*Dir, error) {
	name := dir
	if !filepath.IsAbs(name) {
		name = filepath.Join(workdir, name)
	}
	refuse := func(err error) (*Dir, error) {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
			return nil, &spec.Error{Code: spec.CodeUnavailable, Err: err, Hint: limitHint} // which says nothing of the path
		}
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: err}
	}
	if underProc(filepath.Clean(name)) {
		return refuse(errors.New("it lies under /proc"))
	}
	fd, err := openNoMagic(name)
	if err != nil {
		return refuse(err)
	}
	d := &Dir{FD: fd}
	var fs unix.Statfs_t
	err = unix.Fstatfs(fd, &fs)
	if err == nil { // opening it asked for nothing but the way there
		err = unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		err = errors.New("it lies under /proc")
	}
	if err == nil {
		d.Real, err = os.Readlink(d.Path())
	}
	if err != nil {
		d.Close()
		return refuse(err)
	}
	return d, nil
}

// Path names the directory by its descriptor, in this process and in a child
// between its fork and its exec.
func (d *Dir) Path() string { return "/proc/self/fd/" + strconv.Itoa(d.FD) }

// Close lets go of the directory.
func (d *Dir) Close() { unix.Close(d.FD) }

func underProc(p string) bool { return p == "/proc" || strings.HasPrefix(p, "/proc/") }

// openNoMagic opens a directory without passing a magic link of /proc.
func openNoMagic(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	for {
		fd, err := openat2.Open(unix.AT_FDCWD, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
		switch err {
		case unix.EINTR, unix.EAGAIN:
			continue
		case unix.ENOSYS, unix.EPERM: // an old kernel, or an old seccomp profile
			return openReal(name)
		}
		return fd, err
	}
}

// openReal opens a directory whose real path leads to it again; what a magic link
// leads out to has none.
func openReal(name string) (int, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return -1, errnoOf(err)
	}
	if underProc(real) {
		return -1, errors.New("it lies under /proc")
	}
	fd, err := unix.Open(real, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	d := Dir{FD: fd}
	if now, err := os.Readlink(d.Path()); err != nil || now != real {
		d.Close()
		return -1, errors.New("it changed while it was opened")
	}
	return fd, nil
}

// errnoOf strips what a package put round an errno: its text names paths again.
func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
