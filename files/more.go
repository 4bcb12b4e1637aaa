package files

import (
	"context"
	"io"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/spec"
)

// What follows is more than FS: interfaces that an FS may have, each with a
// function of this package that uses the interface where there is one and does the
// same over FS where there is not. Callers use the functions; a place implements
// the interfaces, because it does the work where the files are.

// Chmodder is an FS that changes modes. There is no other way to do it: Chmod of an
// FS without it is CodeUnsupported.
type Chmodder interface {
	// Chmod sets the nine permission bits of name, following a link. Other bits
	// in mode are CodeInvalid.
	Chmod(ctx context.Context, name string, mode fs.FileMode) error
}

// Copier is an FS that copies in place.
type Copier interface {
	// Copy copies oldname to newname. A file is copied like a Write: atomically,
	// with its mode; a link as a link; a directory with all in it if
	// o.Recursive is set, else it is CodeIsDirectory. A FIFO, device or socket
	// is CodeNotRegular, before anything is copied if it is oldname itself.
	//
	// A new directory has the mode of the one that it is copied from.
	//
	// An existing newname is CodeExists, checked atomically for a file, unless
	// o.Overwrite is set: then a file or link is replaced, and a directory is
	// copied into the one that is there. A directory onto a file is
	// CodeNotDirectory, a file onto a directory CodeIsDirectory, a directory
	// into itself CodeInvalid. Missing parents of newname are made.
	//
	// A copy of a directory that fails or is cancelled leaves what was copied.
	Copy(ctx context.Context, oldname, newname string, o CopyOptions) error
}

// CopyOptions modify Copy.
type CopyOptions struct{ Overwrite, Recursive bool }

// Globber is an FS that searches for names in place.
type Globber interface {
	// Glob yields what GlobOptions select. The first error ends the sequence;
	// breaking off is allowed. A directory that vanishes or cannot be read
	// while it is walked is passed over, but for the first one; so is what has a
	// name of more than spec.MaxPathBytes, which no call takes.
	Glob(ctx context.Context, o GlobOptions) iter.Seq2[Match, error]
}

// GlobOptions say what Glob finds. The zero value finds everything below the
// workdir.
type GlobOptions struct {
	// Dir is where the search begins; "": the workdir. It is not a pattern. A
	// link to a directory is followed here and nowhere below.
	Dir string
	// Pattern is matched against the path of a file relative to Dir. Elements
	// are separated by "/"; in one, * is any run of bytes but "/", ? one
	// character, [a-z] and [^a-z] a class, {a,b} either, and a backslash takes
	// the next byte as it is. An element ** is any number of elements, also
	// none. A name that begins with a dot is like any other. "": **, without
	// Dir itself. "./" before a pattern means nothing; one that ends with a
	// slash finds directories only. A pattern that is malformed, absolute, over
	// 4096 bytes, or holds an element that is empty, "." or ".." is CodeInvalid
	// before anything is read.
	Pattern string
	// Exclude are patterns of what is left out; a directory that matches one is
	// not entered.
	Exclude []string
	// Gitignore leaves out what git would ignore, by its own rules: the
	// .gitignore of each directory from the top of the work tree that Dir lies
	// in, .git/info/exclude, the last match wins, and nothing below an ignored
	// directory comes back. Tracked files are ignored like others: the index is
	// not read. Entries named .git are left out. Outside of a work tree Dir is
	// its top. A .gitignore of over 1 MiB ends the sequence with CodeTooLarge, and
	// so does one that takes, with those above it, more memory than 64 MiB.
	Gitignore bool
	// Limit ends the sequence after so many matches; 0: no limit. Whether there
	// are more is not known.
	Limit int
	// Types, if not 0, are what is wanted: GlobFiles, GlobDirs, GlobLinks,
	// GlobOther, or several of them.
	Types GlobTypes
	// Metadata fills in the whole Info of a Match; otherwise it has Name and the
	// type bits of Mode only, which is faster.
	Metadata bool
}

// GlobTypes is a set of file types.
type GlobTypes uint8

// The file types that Glob tells apart.
const (
	GlobFiles GlobTypes = 1 << iota
	GlobDirs
	GlobLinks
	GlobOther // FIFOs, devices, sockets
)

// Match is one result of Glob. Results come in the order of a walk that takes the
// entries of each directory in the order of their bytes, a directory before what
// is in it.
type Match struct {
	// Path is relative to GlobOptions.Dir.
	Path string
	Info Info
}

// Grepper is an FS that searches contents in place.
type Grepper interface {
	// Grep yields the lines of regular files that match. Files that cannot be
	// read and binary ones (a NUL in the first 8 KiB) are passed over. The
	// first error ends the sequence; breaking off is allowed.
	Grep(ctx context.Context, o GrepOptions) iter.Seq2[Line, error]
}

// GrepOptions say what Grep finds.
type GrepOptions struct {
	// Files select what is searched; Types and Limit are not used.
	Files GlobOptions
	// Pattern is a regular expression as package regexp has them, which takes
	// time linear in the size of a line. A malformed one is CodeInvalid.
	Pattern string
	// Literal takes Pattern as plain text; IgnoreCase ignores case.
	Literal, IgnoreCase bool
	// Limit ends the sequence after so many lines that match, LimitPerFile each
	// file; 0: no limit. The context behind the last one is yielded.
	Limit, LimitPerFile int
	// Context is how many lines before and after a match are yielded too, 0 to
	// 100.
	Context int
	// MaxLineBytes cuts what is yielded of a long line; 0: 4096. Of a longer
	// one only the first 1 MiB is searched.
	MaxLineBytes int
}

// Line is one line of a text file.
type Line struct {
	Path   string // relative to GlobOptions.Dir
	Number int64  // from 1
	Text   []byte // without the newline
	Cut    bool   // Text is not the whole line
	Match  bool   // it matches; false for a line of context
}

// BatchWriter is an FS that writes many files in one stream.
type BatchWriter interface {
	// WriteBatch writes the files that next yields, in their order, and returns
	// how many have landed.
	//
	// All contents travel before any file is replaced: a batch that is
	// delivered short, holds a bad name or size, or needs a directory where
	// something else stands changes no file at all. Then each file is renamed
	// into place in order, atomically for itself and not for the batch; the
	// first that fails ends it, those before stay, those after are absent, and
	// the error's Path is its name. The later of two files of one name wins. A
	// failed batch leaves no temporary file, but maybe in a directory that was
	// renamed meanwhile; directories that were made stay.
	WriteBatch(ctx context.Context, next iter.Seq2[BatchFile, error], o BatchOptions) (int, error)
}

// BatchFile is one file of a batch. Missing parents are made with mode 0755. The
// rules of Write apply to it: a link is replaced, the mode of a file that is
// replaced is kept.
type BatchFile struct {
	Name string
	// Mode is the mode of a file that is new; 0: 0644.
	Mode fs.FileMode
	// Size is what Src must deliver, exactly.
	Size int64
	// Src is read before next is asked for the next file.
	Src io.Reader
}

// BatchOptions modify WriteBatch.
type BatchOptions struct {
	// Sync makes the files durable before WriteBatch returns.
	Sync bool
}

// Namer is an FS that lists names without describing what bears them, which
// spares a stat of each. Glob, Grep and Copy walk with it.
type Namer interface {
	// Names yields the entries of a directory as List does, but only Name and
	// the type bits of Mode are filled in.
	Names(ctx context.Context, dir string, o NamesOptions) iter.Seq2[Info, error]
}

// NamesOptions modify Names.
type NamesOptions struct {
	// NoFollow answers a symbolic link as the last element of the directory's
	// name with CodeNotDirectory.
	NoFollow bool
}

// Resolver is an FS that says where a name leads.
type Resolver interface {
	// Resolve returns the absolute name, without links, "." and "..", of what
	// name leads to. A missing one is CodeFileNotFound.
	Resolve(ctx context.Context, name string) (string, error)
}

// Chmod sets the permission bits of name.
func Chmod(ctx context.Context, fsys FS, name string, mode fs.FileMode) error {
	if c, ok := fsys.(Chmodder); ok {
		return c.Chmod(ctx, name, mode)
	}
	return &spec.Error{Path: name, Code: spec.CodeUnsupported}
}

// Symlinker is an FS that makes symbolic links; there is no other way to make one.
type Symlinker interface {
	// MakeSymlink makes name a symbolic link to target, and its missing parents. An
	// existing name is CodeExists, checked atomically, unless o.Overwrite is set,
	// which replaces what Write replaces.
	MakeSymlink(ctx context.Context, target, name string, o SymlinkOptions) error
}

// SymlinkOptions modify MakeSymlink.
type SymlinkOptions struct{ Overwrite bool }

// MakeSymlink makes name a symbolic link to target, as Symlinker says.
func MakeSymlink(ctx context.Context, fsys FS, target, name string, o SymlinkOptions) error {
	if s, ok := fsys.(Symlinker); ok {
		return s.MakeSymlink(ctx, target, name, o)
	}
	return &spec.Error{Path: name, Code: spec.CodeUnsupported}
}
