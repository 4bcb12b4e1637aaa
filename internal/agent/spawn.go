//go:build linux

package agent

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

// tagName is the environment variable by which a process of a command is found
// again when it has left its session and its parents.
const tagName = "BERTH_COMMAND"

// defaultPath is where programs are looked up when not even the place has a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// launch is a command that is ready to be started.
type launch struct {
	path string
	argv []string
	env  []string
	dir  *workingDir
	tag  string // the entry in env, "" under a clean environment
}

// prepare resolves the program and the directory of a valid command. The caller
// closes the launch's dir.
func (a *agent) prepare(c *spec.Command) (*launch, error) {
	dir, err := openDir(a.cfg.workdir, c.Dir)
	if err != nil {
		return nil, err
	}
	l := &launch{argv: c.Args, dir: dir}
	if !c.CleanEnv {
		l.tag = tagName + "=" + randomWord()
	}
	l.env = commandEnv(a.env, c, dir.real, l.tag)
	l.path, err = lookProgram(c.Args[0], searchPath(l.env, a.env), dir.fd)
	if err != nil {
		dir.close()
		return nil, err
	}
	return l, nil
}

// start starts the program in group (nil: in the guest's own) with files as its
// standard streams.
func (l *launch) start(r *reaper, group *cgroup, files [3]*os.File) (*process, error) {
	attr := &syscall.ProcAttr{Dir: l.dir.path(), Env: l.env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, group.fd
	}
	p, err := r.start(l.path, l.argv, attr)
	return p, startError(l.argv[0], err)
}

// startError says why a program could not be started.
func startError(name string, err error) error {
	var errno syscall.Errno
	if err == nil || !errors.As(err, &errno) {
		return err
	}
	e := &spec.Error{Code: spec.CodeStartFailed, Path: name, Err: errno}
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE:
		e.Code, e.Path, e.Hint = spec.CodeUnavailable, "", "the place has reached a limit on processes, memory or open files"
	case syscall.E2BIG:
		e.Code, e.Path = spec.CodeTooLarge, ""
	case syscall.ENOENT:
		// lookProgram has seen the file.
		e.Err = fmt.Errorf("the program or its interpreter is missing: %w", errno)
	case syscall.ENOEXEC:
		e.Err = fmt.Errorf("neither a binary for this machine nor a script with a #! line: %w", errno)
	}
	return e
}

// commandEnv is the environment of c, with tag behind it where there is one. A PWD
// that the place inherited is made true: it names where the command starts.
func commandEnv(place []string, c *spec.Command, dir, tag string) []string {
	out := make([]string, 0, len(place)+len(c.Env)+1)
	if !c.CleanEnv {
		for _, entry := range place {
			name, _, _ := strings.Cut(entry, "=")
			if _, replaced := c.Env[name]; replaced || name == tagName {
				continue
			}
			if name == "PWD" {
				entry = "PWD=" + dir
			}
			out = append(out, entry)
		}
	}
	added := len(out)
	for name, value := range c.Env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out[added:])
	if tag != "" {
		out = append(out, tag)
	}
	return out
}

// searchPath is the PATH of the first environment that has one.
func searchPath(envs ...[]string) string {
	for _, env := range envs {
		for _, entry := range env {
			if path, ok := strings.CutPrefix(entry, "PATH="); ok {
				return path
			}
		}
	}
	return defaultPath
}

// lookProgram finds name as execvp would: with a slash it is taken as it is,
// without one each directory of path is tried; a relative one, and the empty one,
// is relative to the directory of the command.
func lookProgram(name, path string, dirFD int) (string, error) {
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

// workingDir is a directory that is held open, so that what was checked is where
// the command starts.
type workingDir struct {
	fd   int
	real string // its path as the kernel gives it
}

// openDir opens the directory in which a command is to start: dir, relative to
// workdir. What leads through /proc is refused: a descriptor there can lead out of
// the place.
func openDir(workdir, dir string) (*workingDir, error) {
	name := dir
	if !filepath.IsAbs(name) {
		name = filepath.Join(workdir, name)
	}
	refuse := func(err error) (*workingDir, error) {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: dir, Err: err}
	}
	if underProc(filepath.Clean(name)) {
		return refuse(errors.New("it lies under /proc"))
	}
	fd, err := openNoMagic(name)
	if err != nil {
		return refuse(err)
	}
	d := &workingDir{fd: fd}
	var fs unix.Statfs_t
	err = unix.Fstatfs(fd, &fs)
	if err == nil && fs.Type == unix.PROC_SUPER_MAGIC {
		err = errors.New("it lies under /proc")
	}
	if err == nil {
		d.real, err = os.Readlink(d.path())
	}
	if err != nil {
		d.close()
		return refuse(err)
	}
	return d, nil
}

// path names the directory by its descriptor, in this process and in a child
// between its fork and its exec.
func (d *workingDir) path() string { return "/proc/self/fd/" + strconv.Itoa(d.fd) }

func (d *workingDir) close() { unix.Close(d.fd) }

func underProc(p string) bool { return p == "/proc" || strings.HasPrefix(p, "/proc/") }

// openNoMagic opens a directory without passing a magic link of /proc.
func openNoMagic(name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
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
	d := workingDir{fd: fd}
	if now, err := os.Readlink(d.path()); err != nil || now != real {
		d.close()
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

// randomWord returns 16 hex digits that nobody can guess.
func randomWord() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
