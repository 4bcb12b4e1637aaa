package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/spec"
)

// openFile opens a log that is nobody else's: what others can write, replace or name
// otherwise says nothing, and what is no regular file may never answer. The error is a
// *spec.Error.
func openFile(path string, flag int) (*os.File, fs.FileInfo, error) {
	fail := func(code spec.Code, err error, hint string) (*os.File, fs.FileInfo, error) {
		return nil, nil, &spec.Error{Op: "audit", Path: path, Code: code, Err: err, Hint: hint}
	}
	unopened := func(err error) (*os.File, fs.FileInfo, error) {
		if errors.Is(err, fs.ErrNotExist) {
			return fail(spec.CodeFileNotFound, err, "")
		}
		return fail(spec.CodeUnavailable, err, "")
	}
	dir := filepath.Dir(path)
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return unopened(err)
	case !info.IsDir():
		return fail(spec.CodePermission, errors.New("its directory is a link"), "name the directory itself")
	case !trusted(info):
		return fail(spec.CodePermission, errors.New("its directory belongs to another user"), "")
	case !guarded(info.Mode()):
		return fail(spec.CodePermission, errors.New("others can write its directory"), "chmod go-w "+dir)
	}
	// What a link leads to is not the log.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fail(spec.CodeNotRegular, errors.New("no regular file"), "")
	}
	f, err := os.OpenFile(path, flag|noFollow, 0o600)
	if err != nil {
		return unopened(err)
	}
	code, reason := spec.CodePermission, ""
	info, err = f.Stat()
	switch {
	case err != nil:
		code, reason = spec.CodeUnavailable, err.Error()
	case !info.Mode().IsRegular():
		code, reason = spec.CodeNotRegular, "no regular file"
	case !own(info):
		reason = "it belongs to another user"
	case names(info) > 1:
		reason = "it has another name too, which may be anywhere"
	case !guarded(info.Mode()):
		reason = "others can write it"
	default:
		return f, info, nil
	}
	f.Close()
	return fail(code, errors.New(reason), "")
}
