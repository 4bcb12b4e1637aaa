package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"github.com/berth-dev/berth/spec"
)

// MinSecretBytes is the length of the shortest secret, without the white space around it.
const MinSecretBytes = 4

// Concealable reports whether a value is long enough to be a secret of a log.
func Concealable(value string) bool { return telling(value) }

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
}

// Open opens the log at path, which is made if it is missing, as are the directories above:
// the file for its owner alone, and in a directory that nobody else can write. What is
// there and is no regular file is refused: CodeNotRegular; and what has wider rights, is
// another user's, has a second name or is in a directory that is a link, or that others can
// write: CodePermission.
func Open(path string, o Options) (*Log, error) {
	fail := func(code spec.Code, err error, hint string) (*Log, error) {
		return nil, &spec.Error{Op: "audit", Path: path, Code: code, Err: err, Hint: hint}
	}
	for _, s := range o.Secrets {
		if s != "" && !Concealable(s) {
			return fail(spec.CodeInvalid, fmt.Errorf("a secret of less than %d bytes", MinSecretBytes), "a value so short would be found everywhere")
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(spec.CodeUnavailable, err, "")
	}
	f, info, err := openFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if !private(info.Mode()) {
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
	torn, err := l.torn()
	if err != nil {
		return err
	}
	if torn { // what is left of a line becomes one of its own
		data = append([]byte{'\n'}, data...)
	}
	if _, err = l.file.Write(data); err == nil && l.sync {
		err = l.file.Sync()
	}
	return err
}

// torn reports whether the last line has no end, whoever wrote it.
func (l *Log) torn() (bool, error) {
	info, err := l.file.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	if _, err = l.file.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Close closes the log; a Record after it fails.
func (l *Log) Close() error { return l.file.Close() }

// Read yields the lines of the log at path, the oldest first, of a file that Open would not
// refuse, but that others may read. A line that is none is an error, CodeInvalid, after
// which the next one follows; any other error is the last. An empty line is nothing. A log
// that is missing is CodeFileNotFound.
func Read(path string) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, _, err := openFile(path, os.O_RDONLY)
		if err != nil {
			yield(Line{}, err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, MaxLineBytes)
		for n, last := 1, false; !last; n++ {
			text, err := readLine(in)
			if last = errors.Is(err, io.EOF); last {
				err = nil
			}
			var l Line
			switch {
			case errors.Is(err, errLong):
				err = malformed(path, n, err)
			case err != nil:
				yield(l, &spec.Error{Op: "audit", Path: path, Code: spec.CodeUnavailable, Err: err})
				return
			case len(text) == 0:
				continue
			default:
				l, err = parse(path, n, text)
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// errLong is of a line that no Log has written.
var errLong = errors.New("a line is too long")

// readLine returns the next line without its end. After io.EOF, which may come with a line,
// there is none; of a line that is too long the error is errLong.
func readLine(in *bufio.Reader) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	long := false
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = in.ReadSlice('\n')
	}
	if long && (err == nil || errors.Is(err, io.EOF)) { // at the end nothing is left for the next call
		return nil, errLong
	}
	return bytes.TrimSpace(text), err
}

func parse(path string, n int, text []byte) (Line, error) {
	var l Line
	err := json.Unmarshal(text, &l)
	if err == nil {
		err = l.exact()
	}
	return l, malformed(path, n, err)
}

// malformed says of which line err is, if it is any.
func malformed(path string, line int, err error) error {
	if err == nil {
		return nil
	}
	return &spec.Error{Op: "audit", Path: path, Code: spec.CodeInvalid, Err: fmt.Errorf("line %d: %w", line, err)}
}
