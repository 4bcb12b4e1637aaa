package wire

import (
	"encoding/binary"
	"io"
	"math"
)

// The operations on whole directories, since 1.3. An archive is tar.
const (
	OpExport Op = "export" // the archive in data frames and an end; then reply{tree}
	OpImport Op = "import" // after the request: the archive in data frames and an end; then reply{tree}
	OpFiles  Op = "files"  // the files of a manifest in data frames and an end, see TreeFileReader
)

// TreeRequest is the one request of all operations on whole directories.
type TreeRequest struct {
	Root      Bytes   `json:"root"`
	Exclude   []Bytes `json:"exclude,omitempty"`
	Gitignore bool    `json:"gitignore,omitempty"`

	// Of an export.
	ZeroTimes bool `json:"zero_times,omitempty"`
	OmitLinks bool `json:"omit_links,omitempty"`

	// Of an import, with the limits of its archive.
	Empty        bool  `json:"empty,omitempty"`
	CaseTwins    bool  `json:"case_twins,omitempty"` // are refused
	FileBytes    int64 `json:"file_bytes,omitempty"`
	ArchiveBytes int64 `json:"archive_bytes,omitempty"`
	Entries      int   `json:"entries,omitempty"`
}

// TreeStats says what an archive held, beside an error too.
type TreeStats struct {
	Files   int   `json:"files"`
	Dirs    int   `json:"dirs"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
	Skipped int   `json:"skipped,omitempty"`
}

// ReadTreeReply reads what ends an export or an import. The counts are there with an
// error of the guest's too.
func ReadTreeReply(r io.Reader) (TreeStats, error) {
	var reply Reply
	if err := ReadMessage(r, &reply, maxReplyBytes); err != nil {
		return TreeStats{}, err
	}
	var s TreeStats
	if reply.Tree != nil {
		s = *reply.Tree
	}
	const most = math.MaxInt32 // so that no sum is more than an int holds
	switch {
	case min(s.Files, s.Dirs, s.Links, s.Skipped) < 0 || s.Bytes < 0 || max(s.Files, s.Dirs, s.Links, s.Skipped) > most:
		return TreeStats{}, violation("counts of a tree out of range")
	case reply.Err != nil:
		return s, reply.Err.Spec()
	case reply.Tree == nil:
		return s, violation("a reply without counts of a tree")
	}
	return s, nil
}

// TreeFile is a regular file of a directory. Its record is
//
//	path mode size sha256
//
// as records.go has them, the last as 32 bytes.
type TreeFile struct {
	Path string
	Mode int64 // the lower twelve bits of a Unix mode
	Size int64
	Sum  [32]byte
}

// AppendTreeFile appends the record of f, which follows one of the path prev.
func AppendTreeFile(buf []byte, prev string, f *TreeFile) []byte {
	buf = appendPath(buf, prev, f.Path)
	buf = binary.AppendUvarint(buf, uint64(f.Mode))
	buf = binary.AppendUvarint(buf, uint64(f.Size))
	return append(buf, f.Sum[:]...)
}

// TreeFileReader reads the files of a directory as a guest has read them.
type TreeFileReader struct{ records }

// NewTreeFileReader returns a reader of the records in r.
func NewTreeFileReader(r io.Reader) *TreeFileReader { return &TreeFileReader{newRecords(r)} }

// Next returns the next file, or io.EOF after the last.
func (r *TreeFileReader) Next() (TreeFile, error) {
	var f TreeFile
	if err := r.more(); err != nil {
		return f, err
	}
	var err error
	if f.Path, err = r.next(); err != nil {
		return f, err
	}
	const bits = 0o7777
	mode, err := r.number(bits)
	if err != nil {
		return f, err
	}
	size, err := r.number(math.MaxInt64)
	if err != nil {
		return f, err
	}
	f.Mode, f.Size = int64(mode), int64(size)
	_, err = io.ReadFull(r.r, f.Sum[:])
	return f, inside(err)
}
