//go:build !unix

package gitindex

import "os"

// open opens a file, but not what a link leads to.
func open(path string) (*os.File, error) {
	if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: cause(err)}
	}
	return os.Open(path)
}

func cause(err error) error {
	if err == nil {
		return errNotRegular
	}
	return err
}
