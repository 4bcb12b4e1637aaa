package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth/spec"
)

const (
	// maxDockerfile bounds a Dockerfile and a .dockerignore.
	maxDockerfile = 1 << 20
	// maxEntries bounds all that a context holds, directories and links too; batch is
	// how many of a directory's entries are held before they are counted.
	maxEntries = 2 * spec.MaxContextFiles
	batch      = 256

	ignoreFile = ".dockerignore"
)

// source is what an image is built from, as it was when it was read. The content of its
// files is read when it is needed.
type source struct {
	root       *os.Root
	dockerfile []byte
	// inside is the Dockerfile's place in the context; "": it is not in there.
	inside   string
	args     map[string]string
	platform string
	entries  []entry // sorted by path
	// sums are those of the files' content when hash has read it, of a source whose files an
	// engine may ask for one by one.
	sums map[string][sha256.Size]byte
}

// entry is something in a context.
type entry struct {
	path string // relative, with slashes
	info fs.FileInfo
}

// openSource reads what a context holds. The caller closes it.
func openSource(b spec.Build, platform string) (_ *source, err error) {
	root, err := os.OpenRoot(b.Context)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: b.Context, Err: fmt.Errorf("the build context cannot be read: %w", cause(err))}
	}
	s := &source{root: root, args: b.Args, platform: platform}
	defer func() {
		if err != nil {
			root.Close()
		}
	}()
	file := cmp.Or(b.Dockerfile, filepath.Join(b.Context, "Dockerfile"))
	if rel, err := filepath.Rel(b.Context, file); err == nil && filepath.IsLocal(rel) {
		s.inside = filepath.ToSlash(rel)
	}
	if s.dockerfile, err = s.readDockerfile(file); err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalidPath, Path: file, Err: fmt.Errorf("the dockerfile cannot be read: %w", cause(err))}
	}
	files := 0
	if err := s.walk(".", &files); err != nil {
		return nil, err
	}
	slices.SortFunc(s.entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return s, nil
}

// cause takes the name off an error of package os: the message has it already.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

func (s *source) Close() error { return s.root.Close() }

func (s *source) readDockerfile(file string) ([]byte, error) {
	if s.inside != "" {
		return s.readSmall(s.inside)
	}
	f, err := os.OpenFile(file, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	return readRegular(f, maxDockerfile)
}

// readSmall reads a small regular file of the context.
func (s *source) readSmall(name string) ([]byte, error) {
	f, err := s.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	return readRegular(f, maxDockerfile)
}

// walk adds what is below a directory of the context, and counts its files.
func (s *source) walk(dir string, files *int) error {
	f, err := s.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return s.unreadable(dir, err)
	}
	defer f.Close()
	for {
		// Names of one directory could be millions: they are taken a few at a time.
		found, err := f.ReadDir(batch)
		for _, d := range found {
			name := path.Join(dir, d.Name())
			info, err := s.root.Lstat(filepath.FromSlash(name))
			if err != nil {
				return s.unreadable(name, err)
			}
			switch mode := info.Mode(); {
			case mode.IsRegular():
				*files++
			case !mode.IsDir() && mode&fs.ModeSymlink == 0:
				return &spec.Error{Code: spec.CodeInvalid, Path: name, Err: fmt.Errorf("the build context holds a %s: files, directories and links can be sent", kindOf(mode))}
			}
			s.entries = append(s.entries, entry{path: name, info: info})
			if *files > spec.MaxContextFiles || len(s.entries) > maxEntries {
				return &spec.Error{
					Code: spec.CodeTooLarge, Err: fmt.Errorf("the build context %s holds more than %d files", s.root.Name(), spec.MaxContextFiles),
					Hint: "the setting is Build.Context (--build): name a directory that holds what the Dockerfile copies, and little else",
				}
			}
			if info.IsDir() {
				if err := s.walk(name, files); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return s.unreadable(dir, err)
		}
	}
}

func (s *source) unreadable(name string, err error) error {
	return &spec.Error{Code: spec.CodeInvalidPath, Path: filepath.Join(s.root.Name(), filepath.FromSlash(name)), Err: fmt.Errorf("the build context cannot be read: %w", cause(err))}
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}

// open opens a regular file of the context, if it is the one that was found there.
func (s *source) open(e entry) (*os.File, error) {
	f, err := s.root.OpenFile(filepath.FromSlash(e.path), os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, s.unreadable(e.path, err)
	}
	if now, err := f.Stat(); err != nil || !os.SameFile(now, e.info) || now.Size() != e.info.Size() {
		f.Close()
		return nil, changed(e.path)
	}
	return f, nil
}

func changed(name string) error {
	return &spec.Error{Code: spec.CodeInvalid, Path: name, Err: errors.New("the build context changed while it was read")}
}

// identity hashes what an image is made of: the Dockerfile, each regular file by its path
// and content in the order of their paths, and the arguments by name. Each part has its
// length before it, so that no two sources write the same bytes.
type identity struct{ sum hash.Hash }

func (s *source) identity() identity {
	id := identity{sum: sha256.New()}
	id.part(string(s.dockerfile))
	return id
}

func (id identity) part(text string) {
	id.length(int64(len(text)))
	io.WriteString(id.sum, text)
}

func (id identity) length(n int64) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(n))
	id.sum.Write(size[:])
}

// file adds a file; what is read of it goes to w too.
func (id identity) file(s *source, e entry, w io.Writer) error {
	f, err := s.open(e)
	if err != nil {
		return err
	}
	defer f.Close()
	id.part(e.path)
	id.length(e.info.Size())
	n, err := io.Copy(io.MultiWriter(id.sum, w), io.LimitReader(f, e.info.Size()))
	if err == nil && n != e.info.Size() {
		err = changed(e.path)
	}
	return err
}

// end adds the arguments, and the platform if it is not the engine's own, and returns
// twelve hex digits.
func (id identity) end(s *source) string {
	for _, name := range slices.Sorted(maps.Keys(s.args)) {
		id.part(name)
		id.part(s.args[name])
	}
	if s.platform != "" {
		id.part("platform")
		id.part(s.platform)
	}
	return hex.EncodeToString(id.sum.Sum(nil))[:12]
}

// hash is the identity of the source as it is now.
func (s *source) hash(ctx context.Context) (string, error) {
	id := s.identity()
	s.sums = map[string][sha256.Size]byte{}
	for _, e := range s.entries {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if e.info.Mode().IsRegular() {
			sum := sha256.New()
			w := io.Writer(until{ctx})
			if s.inside == "" {
				w = io.MultiWriter(w, sum)
			}
			if err := id.file(s, e, w); err != nil {
				return "", err
			}
			s.sums[e.path] = [sha256.Size]byte(sum.Sum(nil))
		}
	}
	return id.end(s), nil
}

// until takes what is written until a context ends: one file may be read for hours.
type until struct{ context.Context }

func (u until) Write(p []byte) (int, error) { return len(p), u.Err() }
