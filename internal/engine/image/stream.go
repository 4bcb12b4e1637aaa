package image

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/berth-dev/berth/spec"
)

// maxMessage bounds one message of an engine's stream. Engines send what one write of a
// build step gave, 32 KiB, and BuildKit, which gathers those of all steps, a little over
// 1 MiB, in base64.
const maxMessage = 4 << 20

// errStream is the cause of every refusal of a stream.
var errStream = errors.New("the engine's stream of messages is broken")

// message is one message of the stream by which an engine says how a pull or a build
// goes on.
type message struct {
	Stream   string          `json:"stream"` // of a build's log
	Status   string          `json:"status"`
	ID       string          `json:"id"`
	Progress *amount         `json:"progressDetail"`
	Aux      json.RawMessage `json:"aux"`
	Error    string          `json:"error"`
	Detail   *detail         `json:"errorDetail"`
}

type amount struct {
	Current int64 `json:"current"`
	Total   int64 `json:"total"`
}

type detail struct {
	Message string `json:"message"`
}

// refusal is the error that an engine reported in a stream, whose status was success.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// readMessages hands each message of a stream to take, until the stream ends or take
// returns an error. A message that reports an error is a *refusal. It trusts nothing: what
// is no object of JSON, or over the bound, is an error and not an end.
func readMessages(r io.Reader, take func(message) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	for lines.Scan() {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil || line[0] != '{' {
			return fmt.Errorf("%w: %.64q", errStream, line)
		}
		text := m.Error
		if m.Detail != nil && text == "" {
			text = m.Detail.Message
		}
		if text != "" || m.Detail != nil {
			return &refusal{text: clip(text)}
		}
		if err := take(m); err != nil {
			return fmt.Errorf("%w: %w", errStream, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%w: a message of over %d bytes", errStream, maxMessage)
	}
	return lines.Err()
}

// layerID is how an engine names a layer; other ids are those of tags.
var layerID = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// layer is the progress that a message of a pull tells, if it is about a layer.
func (m message) layer() (spec.Progress, bool) {
	if !layerID.MatchString(m.ID) {
		return spec.Progress{}, false
	}
	p := spec.Progress{Step: "pull", Part: m.ID, Message: clip(m.Status)}
	if m.Progress != nil && m.Progress.Total > 0 {
		p.Total = m.Progress.Total
		p.Done = min(max(m.Progress.Current, 0), p.Total)
	}
	return p, true
}
