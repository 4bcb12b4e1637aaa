package image

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
)

// send writes the context as an archive, with the Dockerfile in it, and ends it only if
// want is the identity of what was sent.
func (s *source) send(w io.Writer, want string) error {
	archive := tar.NewWriter(w)
	id := s.identity()
	for _, e := range s.entries {
		if err := s.sendEntry(archive, id, e); err != nil {
			return err
		}
	}
	if err := s.sendDockerfile(archive, want); err != nil {
		return err
	}
	if id.end(s) != want {
		return changed(s.root.Name())
	}
	return archive.Close()
}

func (s *source) sendEntry(archive *tar.Writer, id identity, e entry) error {
	target := ""
	if e.info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = s.linkTarget(e); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(e.info, target)
	if err != nil {
		return s.unreadable(e.path, err)
	}
	// The name is where it is; whose it is here means nothing there.
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = e.path, 0, 0, "", ""
	h.Mode = int64(sentMode(e.info.Mode()).Perm())
	if e.info.IsDir() {
		h.Name += "/"
	}
	regular := e.info.Mode().IsRegular()
	if regular && s.replaces(e.path) {
		return id.file(s, e, io.Discard)
	}
	if err := archive.WriteHeader(h); err != nil || !regular {
		return err
	}
	return id.file(s, e, archive)
}

func (s *source) linkTarget(e entry) (string, error) {
	text, err := s.root.Readlink(filepath.FromSlash(e.path))
	if err != nil {
		return "", s.unreadable(e.path, err)
	}
	return filepath.ToSlash(text), nil
}

// sentMode is the type and the permissions with which something is sent.
func sentMode(mode fs.FileMode) fs.FileMode {
	if runtime.GOOS == "windows" {
		mode |= 0o755 // modes say nothing there
	}
	return mode & (fs.ModeType | fs.ModePerm)
}

// name is what the Dockerfile is called in the archive.
func (s *source) name(identity string) string {
	if s.inside != "" {
		return s.inside
	}
	return ".dockerfile." + identity
}

// replaces reports whether a file of the context is not sent as it is. A Dockerfile that
// comes from elsewhere must not be copied into the image: the .dockerignore says so.
func (s *source) replaces(name string) bool { return s.inside == "" && name == ignoreFile }

// sendDockerfile adds the Dockerfile, unless the context has it.
func (s *source) sendDockerfile(archive *tar.Writer, identity string) error {
	if s.inside != "" {
		return nil
	}
	ignore := []byte(ignoreFile)
	if s.has(ignoreFile) {
		var err error
		if ignore, err = s.readSmall(ignoreFile); err != nil {
			return s.unreadable(ignoreFile, err)
		}
	}
	ignore = append(bytes.TrimRight(ignore, "\n"), "\n"+s.name(identity)+"\n"...)
	for name, data := range map[string][]byte{ignoreFile: ignore, s.name(identity): s.dockerfile} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) has(name string) bool {
	for _, e := range s.entries {
		if e.path == path.Clean(name) && e.info.Mode().IsRegular() {
			return true
		}
	}
	return false
}
