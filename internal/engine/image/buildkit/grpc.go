package buildkit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// The methods that are served.
	healthCheck = "/grpc.health.v1.Health/Check"
	credentials = "/moby.filesync.v1.Auth/Credentials"
	fileSync    = "/moby.filesync.v1.FileSync/DiffCopy" // where there are files

	// maxRequest bounds a message of an engine's: it is the name of a registry, or the number
	// of a file.
	maxRequest = 4 << 10
	// frameHead is what is before each message: a flag, and a length.
	frameHead = 5
)

// The states of gRPC that are answered.
const (
	statusOK              = 0
	statusInvalidArgument = 3
	statusAborted         = 10
	statusUnimplemented   = 12
)

// service answers what an engine asks in a session.
type service struct {
	keys map[string]Key
	dirs map[string][]File

	mu     sync.Mutex
	closed bool
	failed error // the first of the files'
	calls  sync.WaitGroup
}

// ServeHTTP answers one call.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		return
	}
	defer s.calls.Done()
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Trailer", "Grpc-Status")
	dir, have := s.dirs[r.Header.Get(dirName)]
	if r.URL.Path == fileSync && have {
		w.WriteHeader(http.StatusOK)
		h.Set("Grpc-Status", strconv.Itoa(s.sendFiles(w, r, dir)))
		return
	}
	reply, status := s.answer(r.URL.Path, r.Body)
	w.WriteHeader(http.StatusOK)
	if status == statusOK {
		// An engine that takes no answer has ended the call.
		_, _ = w.Write(appendFrame(nil, reply))
	}
	h.Set("Grpc-Status", strconv.Itoa(status))
}

// methods are what can be called.
func (s *service) methods() []string {
	if len(s.dirs) == 0 {
		return []string{healthCheck, credentials}
	}
	return []string{healthCheck, credentials, fileSync}
}

// begin counts a call, unless the session is closed.
func (s *service) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.calls.Add(1)
	}
	return !s.closed
}

// close lets no call begin any more.
func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// sendFiles answers a call for the files of a directory.
func (s *service) sendFiles(w http.ResponseWriter, r *http.Request, dir []File) (status int) {
	own, err := sendFiles(w, r, dir)
	if err == nil {
		return statusOK
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = cmp.Or(s.failed, own)
	return statusAborted
}

// answer returns the reply to a call, or the state other than statusOK that it ends in.
func (s *service) answer(method string, body io.Reader) (reply []byte, status int) {
	if method != healthCheck && method != credentials {
		return nil, statusUnimplemented
	}
	request, err := readFrame(body)
	if err != nil {
		return nil, statusInvalidArgument
	}
	if method == healthCheck {
		return []byte{1<<3 | byte(varint), 1}, statusOK // it serves
	}
	host := ""
	err = fields(request, func(f field) error {
		if f.number == 1 {
			return f.text(&host)
		}
		return nil
	})
	if err != nil {
		return nil, statusInvalidArgument
	}
	// Where there is no key the empty answer means that nobody logged in.
	key := s.keys[host]
	return appendText(appendText(nil, 1, key.User), 2, key.Secret), statusOK
}

// readFrame reads the one message of a call. What is more, or less, is an error.
func readFrame(r io.Reader) ([]byte, error) {
	message, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, errors.New("a call has more than one message")
	}
	return message, nil
}

// readMessage reads the next message of a call.
func readMessage(r io.Reader) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("the message of a call: %w", err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, errors.New("the message of a call is compressed")
	case size > maxRequest:
		return nil, fmt.Errorf("the message of a call has %d bytes, at most are %d", size, maxRequest)
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(r, message); err != nil {
		return nil, fmt.Errorf("the message of a call: %w", err)
	}
	return message, nil
}

// appendFrame adds a message with what is before it.
func appendFrame(to, message []byte) []byte {
	to = append(to, 0)
	to = binary.BigEndian.AppendUint32(to, uint32(len(message)))
	return append(to, message...)
}
