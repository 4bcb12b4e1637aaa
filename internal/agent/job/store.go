//go:build linux

package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/joblog"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// store is the directory of the records and logs. Everything in it is reached from its
// descriptor.
type store struct {
	path string
	dir  *os.File
}

const (
	recordSuffix = ".json"
	tempSuffix   = ".new"
	logSuffix    = ".log"
	// lastName is the file with the id of the last job, from when on the record of
	// that job may be gone.
	lastName = "last"
	// begunName is the file that the first guest makes.
	begunName = "begun"
)

// openStore opens the directory, which is made if it is missing, for its owner alone.
func openStore(path string) (*store, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &store{path: path, dir: os.NewFile(uintptr(fd), path)}, nil
}

func (s *store) fd() int { return int(s.dir.Fd()) }

func logName(id string) string { return id + logSuffix }

// write replaces a file: the old one or the new one is there, never a part.
func (s *store) write(name string, data []byte) error {
	temp := name + tempSuffix
	s.unlink(temp) // whatever it is: a pipe would be written to, and could be full
	fd, err := unix.Openat(s.fd(), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return storeError(err)
	}
	f := os.NewFile(uintptr(fd), temp)
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(s.fd(), temp, s.fd(), name)
	}
	if err != nil {
		s.unlink(temp)
		return storeError(err)
	}
	return nil
}

// read reads a small file; nothing but a regular one, which is errRecord.
func (s *store) read(name string) ([]byte, error) {
	fd, err := unix.Openat(s.fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOENT): // a link, a socket
		return nil, errRecord
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular(), st.Size() > maxRecordBytes:
		return nil, errRecord
	}
	return io.ReadAll(io.LimitReader(f, maxRecordBytes))
}

func (s *store) unlink(name string) { _ = unix.Unlinkat(s.fd(), name, 0) }

// remove removes what there is of a job.
func (s *store) remove(id string) {
	for _, name := range []string{id + recordSuffix, logName(id), joblog.IndexName(logName(id))} {
		s.unlink(name)
	}
}

// size returns the size of a job's log; 0 if it is none.
func (s *store) size(id string) int64 {
	var st unix.Stat_t
	if unix.Fstatat(s.fd(), logName(id), &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return st.Size
}

// maxNumber is the highest number that a job is given. A higher one is somebody else's
// writing, and would leave none for the jobs to come.
const maxNumber = 1 << 40

// number is the number in the id of a job, 0 if it is none that can be.
func number(id string) int64 {
	if n, ok := wire.JobNumber(id); ok && n <= maxNumber {
		return n
	}
	return 0
}

// last reads the highest number that is known to have been given to a job.
func (s *store) last() int64 {
	data, err := s.read(lastName)
	if err != nil {
		return 0
	}
	return number(string(data))
}

// begin notes that a guest has begun here, and reports whether it is the first one.
func (s *store) begin() bool {
	fd, err := unix.Openat(s.fd(), begunName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func (s *store) setLast(n int64) error { return s.write(lastName, []byte(wire.JobID(n))) }

// The bounds on what is read of the directory: more is not ours.
const (
	maxNames      = 200_000
	maxTotalBytes = 128 << 20
)

// records reads the records that make sense of the jobs with the highest numbers, most at
// the most, in the order of the numbers, and removes what lies there without one. A
// record that cannot be read at the moment stays where it is; above is the highest number
// of those.
func (s *store) records(most int) (out []*record, above int64, err error) {
	var numbers []int64
	err = s.each(func(name string) {
		if id, ok := strings.CutSuffix(name, recordSuffix); ok && number(id) > 0 {
			numbers = append(numbers, number(id))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(numbers)
	known := map[string]bool{}
	total := 0
	for _, n := range slices.Backward(numbers[max(len(numbers)-most, 0):]) {
		id := wire.JobID(n)
		data, err := s.read(id + recordSuffix)
		total += len(data)
		var r *record
		if err == nil {
			r, err = parse(id, data)
		}
		switch {
		case err == nil:
			out = append(out, r)
		case errors.Is(err, errRecord):
			continue
		default:
			above = max(above, n)
		}
		known[id] = true
		if total > maxTotalBytes {
			break
		}
	}
	slices.Reverse(out)
	return out, above, s.each(func(name string) {
		id, _, _ := strings.Cut(name, ".")
		if _, isJob := wire.JobNumber(id); isJob && (!known[id] || strings.HasSuffix(name, tempSuffix)) {
			s.unlink(name)
		}
	})
}

// each calls fn with the names in the directory.
func (s *store) each(fn func(name string)) error {
	d, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer d.Close()
	for n := 0; n < maxNames; {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			fn(name)
		}
		n += len(names)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// storeError gives an error of the place's disk its code.
func storeError(err error) error {
	code := spec.CodeUnavailable
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = spec.CodeNoSpace
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = spec.CodeNotWritable
	}
	return &spec.Error{Code: code, Err: fmt.Errorf("the record of the job: %w", err)}
}
