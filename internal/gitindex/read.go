package gitindex

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// MaxLinks bounds Index.Links.
	MaxLinks = 1024

	maxBytes       = 64 << 20
	maxConfigBytes = 1 << 20
)

// Why not all names of an index are known.
const (
	tooLarge  = "too large"
	malformed = "malformed"
	shared    = "refers to a shared index"
	manyLinks = "too many links"
)

// Index is what is of interest in a git index that a command may have written.
type Index struct {
	Links  []string // paths of gitlinks, relative to the work tree and in it, in order; at most MaxLinks
	Astray string   // the first name that leads out of the work tree or into a repository's own directory; "": none
	Unread string   // why not all names are known: "" or a few words
}

var errNotRegular = errors.New("not a regular file")

// Read reads the index at path. What the file holds is never an error: one is returned only
// where the file is missing, is no regular file or cannot be read.
func Read(path string) (Index, error) {
	data, err := readFile(path, maxBytes)
	if err != nil {
		return Index{}, err
	}
	if data == nil {
		return Index{Unread: tooLarge}, nil
	}
	var all Index
	count := 0
	for _, size := range hashSizes(filepath.Dir(path)) {
		one, ok := parse(data, size)
		if !ok {
			continue
		}
		if count++; count == 1 {
			all = one
			continue
		}
		all.join(one)
	}
	if count == 0 {
		all.Unread = malformed
	}
	return all, nil
}

// join adds what another reading of the same file says.
func (x *Index) join(other Index) {
	for _, link := range other.Links {
		if !slices.Contains(x.Links, link) {
			x.addLink(link)
		}
	}
	if x.Astray == "" {
		x.Astray = other.Astray
	}
	if x.Unread == "" {
		x.Unread = other.Unread
	}
}

// addLink adds a gitlink, or says that there was no room for it.
func (x *Index) addLink(link string) {
	if len(x.Links) == MaxLinks {
		x.Unread = manyLinks
		return
	}
	x.Links = append(x.Links, link)
}

// readFile returns what a regular file holds; nil if that is more than limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	if st.Size() > limit {
		return nil, nil
	}
	data := make([]byte, st.Size())
	n, err := io.ReadFull(f, data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // it has become shorter
		err = nil
	}
	return data[:n], err
}

var sha256Format = regexp.MustCompile(`(?i)objectformat\s*=\s*"?sha256`)

// hashSizes returns how long the hashes of an index in dir may be: an index does not say it,
// and one can be made that reads well with both. The repository's configuration knows, which
// commands cannot write where an index matters.
func hashSizes(dir string) []int {
	if common, err := readFile(filepath.Join(dir, "commondir"), maxConfigBytes); err == nil && len(common) > 0 { // of a linked worktree
		to := strings.TrimRight(string(common), "\r\n")
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		dir = to
	}
	config, err := readFile(filepath.Join(dir, "config"), maxConfigBytes)
	switch {
	case err != nil || config == nil:
		return []int{20, 32}
	case sha256Format.Match(config):
		return []int{32}
	default:
		return []int{20}
	}
}
