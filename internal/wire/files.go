package wire

import (
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// The operations on files. Those that return many things answer with a stream of
// records in data frames, see MatchReader and LineReader.
const (
	OpOpen   Op = "open"   // reply{info}, then data frames and an end
	OpWrite  Op = "write"  // after the request: data frames and an end; then reply
	OpBatch  Op = "batch"  // after the request: files in data frames and an end; then reply{landed}
	OpStat   Op = "stat"   // reply{info}
	OpList   Op = "list"   // replies with entries, the last one has Done
	OpGlob   Op = "glob"   // matches in data frames and an end
	OpGrep   Op = "grep"   // lines in data frames and an end
	OpMkdir  Op = "mkdir"  // reply
	OpRemove Op = "remove" // reply
	OpRename Op = "rename" // reply
	OpCopy   Op = "copy"   // reply
	OpChmod  Op = "chmod"  // reply

	OpResolve Op = "resolve" // reply{name}
	OpSymlink Op = "symlink" // reply; since 1.3
)

// FileRequest is the one request of all operations on a named file.
type FileRequest struct {
	Name      Bytes  `json:"name"`
	NewName   Bytes  `json:"new_name,omitempty"`
	Target    Bytes  `json:"target,omitempty"` // of a link
	Offset    int64  `json:"offset,omitempty"`
	Length    int64  `json:"length,omitempty"`
	MaxBytes  int64  `json:"max_bytes,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Mode      int64  `json:"mode,omitempty"` // permission bits
	SetMode   bool   `json:"set_mode,omitempty"`
	NoFollow  bool   `json:"no_follow,omitempty"`
	Follow    bool   `json:"follow,omitempty"`
	NoParents bool   `json:"no_parents,omitempty"`
	Parents   bool   `json:"parents,omitempty"`
	Exclusive bool   `json:"exclusive,omitempty"`
	Sync      bool   `json:"sync,omitempty"`
	AnySize   bool   `json:"any_size,omitempty"`
	IfSHA256  string `json:"if_sha256,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// GlobRequest is files.GlobOptions on the wire.
type GlobRequest struct {
	Dir       Bytes   `json:"dir,omitempty"`
	Pattern   Bytes   `json:"pattern,omitempty"`
	Exclude   []Bytes `json:"exclude,omitempty"`
	Gitignore bool    `json:"gitignore,omitempty"`
	Limit     int     `json:"limit,omitempty"`
	Types     uint8   `json:"types,omitempty"`
	Metadata  bool    `json:"metadata,omitempty"`
}

// FromGlob converts for sending.
func FromGlob(o files.GlobOptions) GlobRequest {
	r := GlobRequest{Dir: Bytes(o.Dir), Pattern: Bytes(o.Pattern), Gitignore: o.Gitignore, Limit: o.Limit, Types: uint8(o.Types), Metadata: o.Metadata}
	for _, e := range o.Exclude {
		r.Exclude = append(r.Exclude, Bytes(e))
	}
	return r
}

// Options converts what a host asked for.
func (r *GlobRequest) Options() files.GlobOptions {
	o := files.GlobOptions{Dir: string(r.Dir), Pattern: string(r.Pattern), Gitignore: r.Gitignore, Limit: r.Limit, Types: files.GlobTypes(r.Types), Metadata: r.Metadata}
	for _, e := range r.Exclude {
		o.Exclude = append(o.Exclude, string(e))
	}
	return o
}

// GrepRequest is files.GrepOptions on the wire.
type GrepRequest struct {
	Files        GlobRequest `json:"files"`
	Pattern      Bytes       `json:"pattern"`
	Literal      bool        `json:"literal,omitempty"`
	IgnoreCase   bool        `json:"ignore_case,omitempty"`
	Limit        int         `json:"limit,omitempty"`
	LimitPerFile int         `json:"limit_per_file,omitempty"`
	Context      int         `json:"context,omitempty"`
	MaxLineBytes int         `json:"max_line_bytes,omitempty"`
}

// FromGrep converts for sending.
func FromGrep(o files.GrepOptions) GrepRequest {
	return GrepRequest{
		Files: FromGlob(o.Files), Pattern: Bytes(o.Pattern), Literal: o.Literal, IgnoreCase: o.IgnoreCase,
		Limit: o.Limit, LimitPerFile: o.LimitPerFile, Context: o.Context, MaxLineBytes: o.MaxLineBytes,
	}
}

// Options converts what a host asked for.
func (r *GrepRequest) Options() files.GrepOptions {
	return files.GrepOptions{
		Files: r.Files.Options(), Pattern: string(r.Pattern), Literal: r.Literal, IgnoreCase: r.IgnoreCase,
		Limit: r.Limit, LimitPerFile: r.LimitPerFile, Context: r.Context, MaxLineBytes: r.MaxLineBytes,
	}
}

// BatchRequest begins a batch: the files follow, see AppendBatchFile.
type BatchRequest struct {
	Sync bool `json:"sync,omitempty"`
}

// ReadBatchReply reads the answer to a batch: how many files have landed, with an
// error too. The caller knows how many there were.
func ReadBatchReply(r interface{ Read([]byte) (int, error) }) (landed int, err error) {
	var reply Reply
	if err := ReadMessage(r, &reply, maxReplyBytes); err != nil {
		return 0, err
	}
	switch {
	case reply.Landed < 0:
		return 0, violation("%d files landed", reply.Landed)
	case reply.Err != nil:
		return reply.Landed, reply.Err.Spec()
	}
	return reply.Landed, nil
}

// ListBatch is the most entries of one list reply.
const ListBatch = 256

// FileInfo is files.Info on the wire.
type FileInfo struct {
	Name      Bytes  `json:"name"`
	Size      int64  `json:"size,omitempty"`
	Mode      uint32 `json:"mode"` // an fs.FileMode
	ModTimeNS int64  `json:"mtime_ns"`
	UID       int    `json:"uid"`
	GID       int    `json:"gid"`
	Links     uint64 `json:"links,omitempty"`
	Target    Bytes  `json:"target,omitempty"`
}

// FromInfo converts for sending.
func FromInfo(i files.Info) FileInfo {
	return FileInfo{Name: Bytes(i.Name), Size: i.Size, Mode: uint32(i.Mode), ModTimeNS: i.ModTime.UnixNano(), UID: i.UID, GID: i.GID, Links: i.Links, Target: Bytes(i.Target)}
}

// Files checks and converts what a guest said. A name with a slash or a NUL, an
// empty one, "." and ".." are refused: no listing may choose a host path.
func (f *FileInfo) Files() (files.Info, error) {
	name := string(f.Name)
	if name == "" || name == "." || name == ".." || len(name) > spec.MaxPathBytes || (name != "/" && strings.ContainsAny(name, "/\x00")) {
		return files.Info{}, violation("file name %.64q", name)
	}
	if f.Size < 0 || len(f.Target) > spec.MaxPathBytes || min(f.UID, f.GID) < 0 || max(int64(f.UID), int64(f.GID)) > math.MaxUint32 {
		return files.Info{}, violation("file record out of range")
	}
	return files.Info{Name: name, Size: f.Size, Mode: fs.FileMode(f.Mode), ModTime: time.Unix(0, f.ModTimeNS), UID: f.UID, GID: f.GID, Links: f.Links, Target: string(f.Target)}, nil
}
