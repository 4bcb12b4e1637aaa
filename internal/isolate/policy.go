package isolate

import (
	"io/fs"

	"github.com/berth-dev/berth/spec"
)

// Policy is what a wall is to enforce. All paths are absolute.
type Policy struct {
	// Bwrap is the wrapper's path.
	Bwrap string
	// Workdir is writable; it must exist, and no link is in its name.
	Workdir string
	// WritableRoots are writable beside it; each must be a directory.
	WritableRoots []string
	// OptionalRoots are writable if they exist.
	OptionalRoots []string
	// Temporary are the directories for temporary files: guard leaves those of the
	// machine writable, jail has empty ones in their stead, which end with it.
	Temporary []string
	// Hidden are files and directories that nothing inside can read. Those that
	// do not exist are passed over. None may contain a writable root.
	Hidden []string
	// Own are directories in whose stead the sandbox gets an empty one of its own,
	// if they exist: where programs put sockets by which they are commanded.
	Own []string
	// State is hidden too, but for a workdir inside it. Nothing inside can put
	// another directory in its place.
	State string
	// Program is the executable to be run. It stays readable wherever it lies,
	// and nothing inside can write to it or put another one in its place.
	Program string
	// Protected are files and directories that get the same care where they lie
	// in a writable root.
	Protected []string
	// Homes are the home directories of the user who asks, OtherHomes those of
	// everybody else: empty, but for what is writable in them.
	Homes, OtherHomes []string
	// Network is NetworkNone or NetworkOpen.
	Network spec.Network
	// InfoFD is the descriptor on which the wrapper says which process it made.
	// 0: it does not say.
	InfoFD int

	// EUID and EGID are of the user who runs the wrapper. Root's sandbox runs as another
	// user: the Owner of the workdir, or nobody where that is root.
	EUID, EGID int
	Owner      Identity
	// KeepRoot leaves root's sandbox to root, in a user namespace and without any
	// capability.
	KeepRoot bool
	// Confine demands of the program that no command connects to a socket on which
	// somebody outside listens.
	Confine bool
	// Shown are directories that exist read-only in a jail too.
	Shown []string
	// Etc holds the files of /etc that are made for a jail; see MakeEtc.
	Etc string
	// Attr says to whom a path belongs and what its mode is. nil: the system is asked.
	Attr func(path string) (Identity, fs.FileMode, error)
}

// Identity is a user and a group, by number.
type Identity struct{ UID, GID int }

// nobody is whom root's own work is done as.
var nobody = Identity{65534, 65534}

// Nobody reports whether it is the user who is no person and no service.
func (i Identity) Nobody() bool { return i.UID == nobody.UID }

// Wall is a sandbox to be built: the wrapper's command line, and what that enforces.
type Wall struct {
	Path string
	Args []string
	// Writable and Hidden are the paths in force, free of links: the roots that
	// exist, and what exists of what is hidden. A home that the sandbox has of its own is
	// both.
	Writable, Hidden []string
	// Sealed are the mount points on which it stands. Nothing inside can remove
	// one, but the kernel does when somebody outside replaces what lies there.
	Sealed []string
	// Absent are names in the writable roots that programs outside would obey, and
	// that do not exist: the program is told to watch for them. Unwatched are those for
	// which there is no room, and what cannot be looked at; a person should know.
	Absent, Unwatched []string
	// Indexes are those of repositories in the writable roots: the program is told to
	// watch what a command makes a submodule in them.
	Indexes []Index
	// Drop is the user that the program, which root starts, is told to become; nil:
	// it stays who it is. Own are the directories that it is told to give to that
	// user first; each lies on a file system of this sandbox.
	Drop *Identity
	Own  []string
	// Idmapped are the paths in which what belongs to root is to belong to Drop: a
	// mount that does so lies over each before the wrapper is started. None lies
	// within another.
	Idmapped []string
	// Detach says that mounts are shared on this machine: the wrapper is to be
	// started in a mount namespace in which none is, or a mount that is made later
	// appears inside and can be written there.
	Detach bool
}
