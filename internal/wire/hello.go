package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

// The protocol version. Host and guest talk if Major agrees; Minor grows with
// what an older peer can ignore.
//
//	1.0  exec, data, resume, files, status, shutdown
//	1.1  jobs; chmod, copy, glob, grep and batches of files
//	1.2  terminate, running; out of memory explained
//	1.3  terminals, watches, trees, ports, events
//	1.4  directories in front of a command's variables; how long nothing was done
//	1.5  which guest of a place it is; the end of a command's leader before that of its output
const (
	Major = 1
	Minor = 5
)

const (
	magic         = "BRTH"
	maxHelloBytes = 64 << 10
	// maxStrayBytes is how much of a transport's stray output is quoted.
	maxStrayBytes = 512
)

// HostHello opens a connection.
type HostHello struct {
	Major   int    `json:"major"`
	Minor   int    `json:"minor"`
	Version string `json:"version,omitempty"` // of the host's module, for messages
	// ID is the place that the host means; "" takes any.
	ID     string `json:"id,omitempty"`
	Epoch  uint64 `json:"epoch,omitempty"`
	Client string `json:"client"` // random, one for each session: a redial keeps it
	// Profile is how the host has set up its side; the guest does the same.
	Profile Profile `json:"profile"`
}

// GuestHello answers.
type GuestHello struct {
	Err       *Error `json:"err,omitempty"`
	Major     int    `json:"major"`
	Minor     int    `json:"minor"`
	Version   string `json:"version,omitempty"`
	ID        string `json:"id,omitempty"`
	Epoch     uint64 `json:"epoch,omitempty"` // the highest seen
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	PID       int    `json:"pid"`
	UID       int    `json:"uid"`
	Workdir   Bytes  `json:"workdir"`
	Shell     bool   `json:"shell"`
	Coreutils bool   `json:"coreutils"`
	KillTree  string `json:"kill_tree"`
	// CommandUser: a command may run as another user. Since 1.1.
	CommandUser bool `json:"command_user,omitempty"`
	// Jobs: the guest has a directory for its state, and runs jobs. Since 1.1.
	Jobs bool `json:"jobs,omitempty"`
	// Terminals: the guest can make a pseudo-terminal. Since 1.3.
	Terminals bool `json:"terminals,omitempty"`
	// ResumeMS is how long a command without a key outlives its connection. From when a
	// request for a command has come, the guest knows for so long at least that it has.
	ResumeMS int64 `json:"resume_ms"`
	// Incarnation is random, one for each start of a guest: another one knows nothing of
	// what this one was asked for. Since 1.5; "" says nothing.
	Incarnation string `json:"incarnation,omitempty"`
}

// SendHello says the host's hello and returns the guest's. A refusal by the guest
// is its *spec.Error; anything that is no hello is CodeUnavailable, with what came
// instead. ctx bounds the exchange by closing conn.
func SendHello(ctx context.Context, conn io.ReadWriteCloser, h HostHello) (*GuestHello, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	h.Major, h.Minor = Major, Minor
	var g GuestHello
	err := writeHello(conn, h)
	if err == nil || errors.Is(err, io.ErrClosedPipe) {
		// A peer that is no guest may have said why before it hung up.
		err = readHello(conn, &g)
	} else if readErr := readHello(conn, &g); readErr != nil {
		err = readErr
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("hello: %w", err)}
	}
	if g.Err != nil {
		return nil, g.Err.Spec()
	}
	if g.Major != Major {
		return nil, versionMismatch("guest", g.Major)
	}
	if len(g.Workdir) > spec.MaxPathBytes || len(g.ID) > 256 || !word(g.OS) || !word(g.Arch) || len(g.Version) > 256 || len(g.Incarnation) > 256 {
		return nil, &spec.Error{Code: spec.CodeInternal, Err: violation("hello out of range")}
	}
	return &g, nil
}

// word reports whether s is a short word of letters, digits and underscores, or empty.
func word(s string) bool {
	other := func(r rune) bool { return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '_' }
	return len(s) <= 32 && strings.IndexFunc(s, other) < 0
}

func versionMismatch(peer string, major int) error {
	return &spec.Error{Code: spec.CodeUnsupported, Err: fmt.Errorf("the %s speaks protocol %d, this side %d", peer, major, Major), Hint: "end the sandbox and provision it again: a new guest comes with it"}
}

// AcceptHello reads the host's hello and answers it with what answer returns.
// answer's error is sent to the host and returned.
func AcceptHello(conn io.ReadWriter, answer func(*HostHello) (*GuestHello, error)) (*HostHello, error) {
	var h HostHello
	if err := readHello(conn, &h); err != nil {
		return nil, err
	}
	var g *GuestHello
	err := error(nil)
	if h.Major != Major {
		err = versionMismatch("host", h.Major)
	} else {
		g, err = answer(&h)
	}
	if err != nil {
		g = &GuestHello{Err: FromError(err)}
	}
	g.Major, g.Minor = Major, Minor
	if werr := writeHello(conn, g); err == nil {
		err = werr
	}
	return &h, err
}

func writeHello(w io.Writer, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	buf := append([]byte(magic), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(buf[len(magic):], uint32(len(payload)))
	_, err = w.Write(append(buf, payload...))
	return err
}

func readHello(r io.Reader, v any) error {
	var head [len(magic)]byte
	n, err := io.ReadFull(r, head[:])
	if err != nil && n == 0 {
		return fmt.Errorf("the stream ended before it said anything: %w", err)
	}
	if string(head[:n]) != magic {
		return strayOutput(r, head[:n])
	}
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > maxHelloBytes {
		return violation("hello of %d bytes", length)
	}
	payload, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err != nil {
		return err
	}
	if len(payload) < int(length) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(payload, v); err != nil {
		return violation("hello: %v", err)
	}
	return nil
}

// strayOutput quotes what a transport said instead of a hello: a shell's "not
// found", a login banner. It reads at most maxStrayBytes and for a moment only.
func strayOutput(r io.Reader, head []byte) error {
	got := make(chan []byte, maxStrayBytes) // never blocks: each holds a byte at least
	go func() {
		defer close(got)
		for n, err := 0, error(nil); err == nil && n < maxStrayBytes; {
			part := make([]byte, maxStrayBytes-n)
			var k int
			k, err = r.Read(part)
			if n += k; k > 0 {
				got <- part[:k]
			}
		}
	}()
	text := bytes.Clone(head)
	moment := time.After(200 * time.Millisecond) // the caller closes r, which ends the goroutine
	for more := true; more; {
		var part []byte
		select {
		case part, more = <-got:
			text = append(text, part...)
		case <-moment:
			more = false
		}
	}
	return fmt.Errorf("no guest answered, but: %s", strconv.QuoteToASCII(string(bytes.TrimSpace(text))))
}
