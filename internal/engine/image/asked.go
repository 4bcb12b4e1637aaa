package image

import (
	"crypto/sha256"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/berth-dev/berth/internal/engine/image/buildkit"
)

// dirs are the files that BuildKit may ask for in a session: none where the Dockerfile is in
// the context, which then is sent as an archive. Else the Dockerfile is in a directory of its
// own: it is no part of an image, and an archive would bring it there.
func (s *source) dirs() map[string][]buildkit.File {
	if s.inside != "" {
		return nil
	}
	var context []buildkit.File
	for _, e := range s.entries {
		f := buildkit.File{Path: e.path, Mode: sentMode(e.info.Mode()), ModTime: e.info.ModTime()}
		switch {
		case e.info.Mode().IsRegular():
			f.Size, f.Open = e.info.Size(), func() (io.ReadCloser, error) { return s.openAgain(e) }
		case e.info.Mode()&fs.ModeSymlink != 0:
			f.Link, _ = s.linkTarget(e) // one that is gone is a link to nothing
		}
		context = append(context, f)
	}
	return map[string][]buildkit.File{
		buildkit.ContextDir: context,
		buildkit.DockerfileDir: {{
			Path: buildkit.Dockerfile, Mode: 0o644, Size: int64(len(s.dockerfile)), Open: buildkit.Bytes(s.dockerfile),
		}},
	}
}

// openAgain opens a file of the context of which hash has read the content. Its end is an error
// if it is another one by now.
func (s *source) openAgain(e entry) (io.ReadCloser, error) {
	f, err := s.open(e)
	if err != nil {
		return nil, err
	}
	return &sameFile{File: f, rest: io.LimitReader(f, e.info.Size()), sum: sha256.New(), want: s.sums[e.path], path: e.path}, nil
}

// sameFile reads a file that has to have a sum.
type sameFile struct {
	*os.File
	rest io.Reader
	sum  hash.Hash
	want [sha256.Size]byte
	path string
}

// Read implements io.Reader.
func (f *sameFile) Read(p []byte) (int, error) {
	n, err := f.rest.Read(p)
	f.sum.Write(p[:n])
	if err == io.EOF && [sha256.Size]byte(f.sum.Sum(nil)) != f.want {
		err = changed(f.path)
	}
	return n, err
}
