package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth/spec"
)

// MinSecretBytes is the length of the shortest secret.
const MinSecretBytes = 4

// Options modify a Log. The zero value knows no secrets and does not wait for the disk.
type Options struct {
	// Secrets are the values that no line may hold. An empty one is none, another one of
	// less than MinSecretBytes CodeInvalid.
	Secrets []string
	// Sync waits until a line is on the disk.
	Sync bool
}

// Log is a log that is written. It is safe for concurrent use.
type Log struct {
	secrets *redactor
	sync    bool
	pid     int

	mu   sync.Mutex
	file *os.File
	torn bool // the last line was not written whole
}

// Open opens the log at path, which is made if it is missing, as are the directories above:
// the file for its owner alone, and in a directory that nobody else can write. What is
// there and has wider rights, is a link or no regular file is refused: CodePermission,
// CodeNotRegular.
func Open(path string, o Options) (*Log, error) {
	fail := func(code spec.Code, err error, hint string) (*Log, error) {
		return nil, &spec.Error{Op: "audit", Path: path, Code: code, Err: err, Hint: hint}
	}
	for _, s := range o.Secrets {
		if s != "" && len(s) < MinSecretBytes {
			return fail(spec.CodeInvalid, fmt.Errorf("a secret of less than %d bytes", MinSecretBytes), "a value so short would be found everywhere")
		}
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fail(spec.CodeUnavailable, err, "")
	}
	if info, err := os.Stat(dir); err != nil {
		return fail(spec.CodeUnavailable, err, "")
	} else if !guarded(info.Mode()) {
		return fail(spec.CodePermission, fmt.Errorf("others can write the directory %s", dir), "chmod go-w "+dir)
	}
	// What a link leads to is not the log.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fail(spec.CodeNotRegular, errors.New("no regular file"), "")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|noFollow, 0o600)
	if err != nil {
		return fail(spec.CodeUnavailable, err, "")
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return fail(spec.CodeUnavailable, err, "")
	case !info.Mode().IsRegular():
		f.Close()
		return fail(spec.CodeNotRegular, errors.New("no regular file"), "")
	case !private(info.Mode()):
		f.Close()
		return fail(spec.CodePermission, errors.New("others have rights to the log"), "chmod 600 "+path)
	}
	return &Log{secrets: newRedactor(o.Secrets), sync: o.Sync, pid: os.Getpid(), file: f}, nil
}

// Record appends a record. Its error is CodeUnavailable.
func (l *Log) Record(_ context.Context, r spec.AuditRecord) error {
	data, err := l.line(&r).encode()
	if err == nil {
		err = l.append(data)
	}
	if err != nil {
		return &spec.Error{Op: "audit", Path: l.file.Name(), Code: spec.CodeUnavailable, Err: err}
	}
	return nil
}

func (l *Log) append(data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.torn { // what is left of a line becomes one of its own
		data = append([]byte{'\n'}, data...)
	}
	n, err := l.file.Write(data)
	switch {
	case err == nil:
		l.torn = false
	case n > 0:
		l.torn = true
	}
	if err == nil && l.sync {
		err = l.file.Sync()
	}
	return err
}

// Close closes the log; a Record after it fails.
func (l *Log) Close() error { return l.file.Close() }

// Read yields the lines of the log at path, the oldest first. A line that is none is an
// error, after which the next one follows; any other error is the last. A log that is
// missing is CodeFileNotFound.
func Read(path string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			code := spec.CodeUnavailable
			if errors.Is(err, fs.ErrNotExist) {
				code = spec.CodeFileNotFound
			}
			yield(Line{}, &spec.Error{Op: "audit", Path: path, Code: code, Err: err})
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, MaxLineBytes)
		for n := 1; ; n++ {
			text, err := in.ReadSlice('\n')
			for errors.Is(err, bufio.ErrBufferFull) { // no line of ours is so long
				text = nil
				_, err = in.ReadSlice('\n')
			}
			if err == io.EOF && len(text) == 0 {
				return
			}
			var l Line
			if err == nil || err == io.EOF {
				if err = json.Unmarshal(text, &l); err == nil {
					err = l.exact()
				}
				err = malformed(path, n, err)
			} else {
				yield(Line{}, &spec.Error{Op: "audit", Path: path, Code: spec.CodeUnavailable, Err: err})
				return
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// malformed says of which line err is, if it is any.
func malformed(path string, line int, err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Op: "audit", Path: path, Code: spec.CodeInvalid, Err: fmt.Errorf("line %d: %w", line, err)}
}
