// Package files is the contract for the files of a place: byte-exact, typed in
// its errors, bounded in its memory.
//
// # Names
//
// A name is a slash-separated path inside the place: absolute, or relative to the
// place's workdir. Names are bytes; one that is not UTF-8 or holds a newline is as
// good as any other. Only the empty name and one with a NUL byte are refused,
// with CodeInvalidPath. The place is the boundary: ".." is an ordinary element.
//
// # Symbolic links
//
// A link in the middle of a path is followed, inside the place, by the place. As
// the last element: Stat describes the link itself unless asked to follow, Open
// follows unless told not to, Write replaces the link by a regular file and leaves
// what it pointed to alone; a link to a directory counts as a directory for Write
// (CodeIsDirectory). Remove and Rename act on the link itself.
//
// # Errors
//
// Every error is a *spec.Error. CodeFileNotFound: missing. CodeNotDirectory: a
// file, or a dangling link, stands where a directory is needed, at any distance.
// CodeIsDirectory, CodeNotRegular (FIFO, device, socket; never opened, so never
// blocked on), CodeNotReplaceable (mount point or device under Write),
// CodeNotWritable, CodePermission, CodeTooLarge, CodeNoSpace, CodeExists,
// CodeInvalidPath say what they say.
//
// # Concurrency
//
// An FS is safe for concurrent use. A reader of a file that Write replaces sees
// the old bytes or the new ones, never a mixture.
package files

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"
)

// FS is what a place offers. Everything else is written in terms of it.
//
// A cancelled ctx ends the call with the context's error; a Write that had not
// been renamed into place leaves the target and no temporary file.
type FS interface {
	// Open opens a regular file for reading. The caller closes the File.
	Open(ctx context.Context, name string, o OpenOptions) (File, error)
	// Write makes name a regular file with exactly the bytes of src (nil: none), or
	// leaves it as it was. size is the number of bytes that src must deliver; a
	// source that delivers fewer or more fails the write with CodeInvalid. A negative
	// size is refused before src is read and before any directory is made,
	// unless o.AnySize is set, which takes src to its end.
	Write(ctx context.Context, name string, src io.Reader, size int64, o WriteOptions) error
	// Stat describes name.
	Stat(ctx context.Context, name string, o StatOptions) (Info, error)
	// List yields the entries of a directory, without "." and "..", in no
	// promised order and without holding them all in memory. The first error
	// ends the sequence. Breaking off is allowed.
	List(ctx context.Context, dir string) iter.Seq2[Info, error]
	// Mkdir makes a directory with mode 0755. An existing directory is
	// CodeExists, unless o.Parents is set, which makes missing parents too.
	Mkdir(ctx context.Context, name string, o MkdirOptions) error
	// Remove removes a file, a link or an empty directory; with o.Recursive a
	// directory and all in it, never following a link. A missing name is
	// CodeFileNotFound. A directory that is not empty is CodeExists.
	Remove(ctx context.Context, name string, o RemoveOptions) error
	// Rename moves oldname to newname. An existing newname is CodeExists,
	// checked atomically, unless o.Overwrite is set. It never crosses file
	// systems (CodeUnsupported).
	Rename(ctx context.Context, oldname, newname string, o RenameOptions) error
}

// File is an open regular file. Read returns io.EOF only after the last byte of
// the size that Info states or, where the file shrank meanwhile, an error with
// CodeUnavailable: a short file never looks whole.
type File interface {
	io.ReadCloser
	// Info describes the file as it was when it was opened.
	Info() Info
}

// OpenOptions modify Open. The zero value reads the whole file, follows links.
type OpenOptions struct {
	Offset int64 // first byte; past the end reads nothing
	Length int64 // at most so many bytes; 0: to the end
	// MaxBytes refuses a file (not a range) that is larger, with CodeTooLarge,
	// before any byte travels. 0: no limit.
	MaxBytes int64
	// NoFollow refuses a symbolic link as the last element with CodeNotRegular.
	NoFollow bool
}

// WriteOptions modify Write.
type WriteOptions struct {
	// Mode is the mode of a file that is new, 0 meaning 0644, whatever the
	// umask. A regular file that is replaced keeps its mode unless SetMode.
	// Only the nine permission bits are used.
	Mode    fs.FileMode
	SetMode bool
	// NoParents refuses a missing parent with CodeFileNotFound instead of
	// making it (mode 0755).
	NoParents bool
	// Exclusive refuses an existing name with CodeExists, atomically.
	Exclusive bool
	// Sync makes the write durable before it returns: file and directory.
	Sync bool
	// AnySize reads src to its end whatever size says.
	AnySize bool
	// IfSHA256 writes only if name is a regular file whose bytes have this
	// SHA-256 (64 hex digits), compared when src has been read and right before
	// the rename; else CodeExists, or CodeFileNotFound. "": no condition.
	// Another writer of the place can still come between the two.
	IfSHA256 string
}

// StatOptions modify Stat.
type StatOptions struct {
	Follow bool // describe what a link points to
}

// MkdirOptions modify Mkdir.
type MkdirOptions struct{ Parents bool }

// RemoveOptions modify Remove.
type RemoveOptions struct{ Recursive bool }

// RenameOptions modify Rename.
type RenameOptions struct{ Overwrite bool }

// Info describes one file.
type Info struct {
	// Name is the last element of the path as bytes.
	Name string
	Size int64
	// Mode holds type and permission bits as io/fs has them.
	Mode    fs.FileMode
	ModTime time.Time
	UID     int
	GID     int
	// Links is the number of hard links.
	Links uint64
	// Target is where a symbolic link points to.
	Target string
}

// IsDir reports whether the file is a directory; a link to one is not.
func (i Info) IsDir() bool { return i.Mode.IsDir() }

// IsRegular reports whether the file is a regular one.
func (i Info) IsRegular() bool { return i.Mode.IsRegular() }
