package tarstream

import (
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/berth-dev/berth/spec"
)

// Type is what an entry is.
type Type uint8

// The types of entries.
const (
	File Type = iota + 1
	Dir
	Symlink
	Hardlink // another name of an earlier File of the archive
)

// Header is one entry.
type Header struct {
	// Path is relative, with "/" between its elements, none of which is empty, "."
	// or "..".
	Path string
	Type Type
	// Mode holds the permission bits, ModeSetuid, ModeSetgid and ModeSticky.
	Mode fs.FileMode
	// Size is how many bytes follow; of a Hardlink, which none follow, it is that
	// of the file.
	Size    int64
	ModTime time.Time
	// Target is where a Symlink points to, and the Path of a Hardlink's file.
	Target string
}

// Limits bound an archive. A field that is 0 stands for its default.
type Limits struct {
	FileBytes    int64 // of one file; 256 MiB
	ArchiveBytes int64 // of the whole, as the package comment measures it; 1 GiB
	HeaderBytes  int64 // of one extended header; 1 MiB, which is also the most
	// Entries are those of the archive and the directories that it only implies by
	// the names of others; 1,000,000.
	Entries int
}

// The defaults of Limits.
const (
	DefaultFileBytes    = 256 << 20
	DefaultArchiveBytes = 1 << 30
	DefaultHeaderBytes  = 1 << 20
	DefaultEntries      = 1_000_000
)

// Validate refuses a negative limit, and one of extended headers over 1 MiB, with
// CodeInvalid.
func (l Limits) Validate() error {
	if min(l.FileBytes, l.ArchiveBytes, l.HeaderBytes, int64(l.Entries)) < 0 {
		return spec.New(spec.CodeInvalid, "a negative limit of an archive")
	}
	if l.HeaderBytes > DefaultHeaderBytes {
		return spec.New(spec.CodeInvalid, fmt.Sprintf("an extended header has at most %d bytes", DefaultHeaderBytes))
	}
	return nil
}

// withDefaults puts the defaults where nothing is said.
func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int64
		value int64
	}{{&l.FileBytes, DefaultFileBytes}, {&l.ArchiveBytes, DefaultArchiveBytes}, {&l.HeaderBytes, DefaultHeaderBytes}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if l.Entries == 0 {
		l.Entries = DefaultEntries
	}
	return l
}

// Reason is why an archive is refused.
type Reason string

// The reasons. There are no others.
const (
	BadHeader       Reason = "bad_header" // broken, or with more than one reading
	Truncated       Reason = "truncated"  // it ends before its end marker
	BadPath         Reason = "bad_path"
	UnsupportedType Reason = "unsupported_type"
	FileTooLarge    Reason = "file_too_large"
	ArchiveTooLarge Reason = "archive_too_large" // in bytes or in entries
	BadSymlink      Reason = "bad_symlink"
	BadHardlink     Reason = "bad_hardlink"
	Duplicate       Reason = "duplicate"
	PathConflict    Reason = "path_conflict" // below what is no directory, or a file in the place of one
)

// RefusedError says which entry of an archive is refused and why. It is the cause of a
// *spec.Error with CodeTooLarge for FileTooLarge and ArchiveTooLarge, else with
// CodeInvalid.
type RefusedError struct {
	Reason Reason
	// Entry is the name of the entry as the archive has it, cut to 256 bytes; "":
	// the refusal is of no entry, or of one whose header cannot be read.
	Entry string
	// Index counts the entries from 1; one more than there are for the end.
	Index int
	// Detail says what is wrong in words.
	Detail string
}

func (e *RefusedError) Error() string {
	where := "entry " + strconv.Itoa(e.Index)
	if e.Entry != "" {
		where += " " + strconv.Quote(e.Entry)
	}
	return fmt.Sprintf("%s: %s: %s", where, e.Reason, e.Detail)
}

// maxQuoted is how much of a name is said.
const maxQuoted = 256

// refuse makes the error.
func refuse(reason Reason, index int, name, format string, args ...any) error {
	code := spec.CodeInvalid
	if reason == FileTooLarge || reason == ArchiveTooLarge {
		code = spec.CodeTooLarge
	}
	return &spec.Error{Code: code, Err: &RefusedError{
		Reason: reason, Entry: name[:min(len(name), maxQuoted)], Index: index, Detail: fmt.Sprintf(format, args...),
	}}
}
