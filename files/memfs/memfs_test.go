package memfs_test

import (
	"testing"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/filestest"
	"github.com/berth-dev/berth/files/memfs"
)

// memfs is the reference: it keeps the whole contract.
func TestContract(t *testing.T) {
	filestest.Run(t, func(t *testing.T) filestest.Env {
		fsys := memfs.New("/work")
		if err := fsys.Mkdir(t.Context(), "/case/dir", files.MkdirOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
		return filestest.Env{FS: fsys, Dir: "/case/dir"}
	})
}
