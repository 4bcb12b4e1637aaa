package idmap

import (
	"errors"
	"os"
	"sync"
)

// ErrUnable says that this kernel, or the file system of a path, cannot do it, or that
// this user may not: there is nothing wrong with what was asked for.
var ErrUnable = errors.New("no idmapped mount")

// Identity is whose root's files are to look, by number, neither 0.
type Identity struct{ UID, GID int }

// Mapper makes idmapped mounts. The zero value is usable, by any number of goroutines. It
// holds one file open, the user namespace of the identity that it was asked for last: to
// make one takes a fork of the whole program.
type Mapper struct {
	mu    sync.Mutex
	users *os.File // nil: none
	id    Identity // of users
}
