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
	locksName     = "locks"
)

// prepare makes the state directory, and refuses one that others could write to or
// that is not ours.
func (r *Root) prepare() error {
	if !filepath.IsAbs(r.Dir) {
		return &spec.Error{Code: spec.CodeInvalidPath, Path: r.Dir, Err: errors.New("the state directory is not an absolute path")}
	}
	for _, dir := range []string{r.Dir, filepath.Join(r.Dir, locksName)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return hostError(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(r.Dir, &st); err != nil {
		return hostError(&fs.PathError{Op: "stat", Path: r.Dir, Err: err})
	}
	if int(st.Uid) != os.Geteuid() {
		return &spec.Error{Code: spec.CodePermission, Err: fmt.Errorf("the state directory belongs to uid %d", st.Uid), Hint: "name another state directory: " + r.Dir + " is not yours"}
	}
	if st.Mode&0o077 != 0 {
		return hostError(os.Chmod(r.Dir, 0o700))
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
	for _, name := range []string{workspaceName, sockName, logName, recordTemp} {
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
	code := spec.CodeInternal
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		code = spec.CodePermission
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		code = spec.CodeNoSpace
	case errors.Is(err, unix.ENOTDIR):
		code = spec.CodeInvalidPath
	}
	return &spec.Error{Code: code, Err: err}
}
