package buildkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

const (
	// The methods that are served.
	healthCheck = "/grpc.health.v1.Health/Check"
	credentials = "/moby.filesync.v1.Auth/Credentials"

	// maxRequest bounds a request: it is the name of a registry.
	maxRequest = 4 << 10
	// frameHead is what is before each message: a flag, and a length.
	frameHead = 5
)

// The states of gRPC that are answered.
const (
	statusOK              = 0
	statusInvalidArgument = 3
	statusUnimplemented   = 12
)

// service answers what an engine asks in a session.
type service struct{ keys map[string]Key }

// ServeHTTP answers one call.
func (s service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply, status := s.answer(r.URL.Path, r.Body)
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	if status == statusOK {
		// An engine that takes no answer has ended the call.
		_, _ = w.Write(appendFrame(nil, reply))
	}
	h.Set("Grpc-Status", strconv.Itoa(status))
}

// answer returns the reply to a call, or the state other than statusOK that it ends in.
func (s service) answer(method string, body io.Reader) (reply []byte, status int) {
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
	if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, errors.New("a call has more than one message")
	}
	return message, nil
}

// appendFrame adds a message with what is before it.
func appendFrame(to, message []byte) []byte {
	to = append(to, 0)
	to = binary.BigEndian.AppendUint32(to, uint32(len(message)))
	return append(to, message...)
}
