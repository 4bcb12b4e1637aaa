package place

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/spec"
)

const (
	recordName    = "record.json"
	recordTemp    = "record.new"
	sockName      = "sock"
	logName       = "guest.log"
	workspaceName = "workspace"
	stateName     = "state"
	locksName     = "locks"
)

// prepare makes the state directory, and refuses one that is not trusted.
func (r *Root) prepare() error {
	if err := r.trusted(); err != nil {
		return err
	}
	for _, dir := range []string{r.Dir, filepath.Join(r.Dir, locksName)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			e := hostError(err).(*spec.Error)
			e.Hint = otherDirHint
			return e
		}
	}
	if err := r.trusted(); err != nil { // somebody may have been quicker
		return err
	}
	if info, err := os.Stat(r.Dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		return hostError(os.Chmod(r.Dir, 0o700))
	}
	return nil
}

const otherDirHint = "name another state directory: BERTH_STATE_DIR for the berth command"

// trusted refuses a state directory in which another user may have put something: what
// is found there is believed, and decides which processes are spoken to and ended. It
// must be ours, and of the directories on the way to it none may belong to another user,
// or be open to others but as /tmp is. One that does not exist is trusted as far as it
// does.
func (r *Root) trusted() error {
	if !filepath.IsAbs(r.Dir) {
		return &spec.Error{Code: spec.CodeInvalidPath, Path: r.Dir, Err: errors.New("the state directory is not an absolute path")}
	}
	refuse := func(path, why string) error {
		return &spec.Error{Code: spec.CodePermission, Path: path, Err: errors.New("the state directory is not safe here: " + why), Hint: otherDirHint}
	}
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		return hostError(err)
	}
	paths := []string{filepath.Clean(r.Dir)} // by which it is reached, and where it lies
	if resolved, err := filepath.EvalSymlinks(r.Dir); err == nil && resolved != paths[0] {
		paths = append(paths, resolved)
	}
	euid, egid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, path := range paths {
		for at := path; at != "/"; at = filepath.Dir(at) {
			var st unix.Stat_t
			switch err := unix.Lstat(at, &st); {
			case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
				continue
			case err != nil:
				return hostError(&fs.PathError{Op: "stat", Path: at, Err: err})
			}
			link := st.Mode&unix.S_IFMT == unix.S_IFLNK
			switch {
			case st.Uid != euid && (at == path && !link || st.Uid != root.Uid && st.Uid != 0):
				return refuse(at, fmt.Sprintf("it belongs to uid %d", st.Uid))
			case link || st.Mode&unix.S_ISVTX != 0 && at != path:
			case st.Mode&0o002 != 0, st.Mode&0o020 != 0 && (at == path || st.Gid != egid && st.Gid != 0):
				return refuse(at, "others can write to it")
			}
		}
	}
	return nil
}

// dirOf returns the directory of a place.
func (r *Root) dirOf(id string) string { return filepath.Join(r.Dir, id) }

// load reads a record. A place that does not exist is (nil, nil).
func (r *Root) load(id string) (*Record, error) {
	f, err := os.OpenFile(filepath.Join(r.dirOf(id), recordName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, hostError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecordBytes+1))
	if err != nil {
		return nil, hostError(err)
	}
	var rec Record
	if len(data) > maxRecordBytes {
		err = fmt.Errorf("more than %d bytes", maxRecordBytes)
	} else if err = json.Unmarshal(data, &rec); err == nil && rec.ID != id {
		err = fmt.Errorf("it names %s", rec.ID)
	}
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("the record of %s cannot be read: %w", id, err), Hint: "end the sandbox, or provision it with replace: its record is damaged"}
	}
	return &rec, nil
}

// save writes a record: the old one or the new one is there, never a part. It does
// not outlive a power cut for certain, and need not: no guest does.
func (r *Root) save(rec *Record) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	dir := r.dirOf(rec.ID)
	temp := filepath.Join(dir, recordTemp)
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return hostError(err)
	}
	return hostError(os.Rename(temp, filepath.Join(dir, recordName)))
}

// remove removes the directory of a place. The record goes last, so that what is
// left of a removal that was cut short is found again. The caller holds the lock and
// has ended the guest.
func (r *Root) remove(id string) error {
	root, err := os.OpenRoot(r.dirOf(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return hostError(err)
	}
	defer root.Close()
	var errs []error
	for _, name := range []string{workspaceName, stateName, sockName, logName, recordTemp} {
		errs = append(errs, removeTree(root, name))
	}
	if errors.Join(errs...) == nil {
		errs = append(errs, root.RemoveAll(recordName), os.RemoveAll(r.dirOf(id)))
	}
	return hostError(errors.Join(errs...))
}

// removeEmpty removes a directory in which no record was ever written, or from which
// everything else has been removed. One that holds anything of value stays.
func (r *Root) removeEmpty(id string) {
	dir := r.dirOf(id)
	os.Remove(filepath.Join(dir, recordTemp))
	os.Remove(dir)
}

// removeTree removes name, directories that a command has closed to itself included.
func removeTree(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// WalkDir reports a directory before it reads it; what it cannot open even so
	// is named by the second attempt.
	_ = fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(p, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}

// sockPath is a name for the socket that fits into a sockaddr however long the state
// directory is. It holds as long as dir is open in this process.
func sockPath(dir *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + sockName
}

// openDir opens a directory as a place to start paths from.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// hostError gives an error of this machine's files its code.
func hostError(err error) error {
	if err == nil {
		return nil
	}
	code, hint := spec.CodeInternal, ""
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		code = spec.CodePermission
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = spec.CodeNoSpace
	case errors.Is(err, unix.EFBIG):
		code, hint = spec.CodeNoSpace, "raise the limit on the size of files (ulimit -f)"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		code, hint = spec.CodeUnavailable, "raise the limit on open files (ulimit -n)"
	case errors.Is(err, unix.ENOTDIR):
		code = spec.CodeInvalidPath
	}
	return &spec.Error{Code: code, Err: err, Hint: hint}
}
