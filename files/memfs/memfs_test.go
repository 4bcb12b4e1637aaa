package memfs_test

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/files/memfs"
)

// open returns a tree with an empty directory for a case.
func open(t *testing.T) (*memfs.FS, string) {
	t.Helper()
	fsys := memfs.New("/work")
	if err := fsys.Mkdir(t.Context(), "/case/dir", files.MkdirOptions{Parents: true}); err != nil {
		t.Fatal(err)
	}
	return fsys, "/case/dir"
}

// memfs is the reference: it keeps the whole contract.
func TestContract(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Env {
		fsys, dir := open(t)
		return filestest.Env{FS: fsys, Dir: dir, Soak: os.Getenv("BERTH_TEST_SOAK") != ""}
	})
}

// plain is an FS that has none of the optional interfaces.
type plain struct {
	files.FS
	special
}

// special makes what the contract cannot.
type special interface {
	Symlink(target, name string) error
	Mkfifo(name string) error
}

// What package files does over an FS alone is what the optional interfaces promise.
func TestGenericForms(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Env {
		fsys, dir := open(t)
		return filestest.Env{FS: plain{fsys, fsys}, Dir: dir}
	})
}
