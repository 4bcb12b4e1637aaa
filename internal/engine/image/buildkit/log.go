package buildkit

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/berth-dev/berth/spec"
)

const (
	// maxSteps bounds how many steps of a build are told apart; the others are not told of.
	maxSteps = 2000
	// maxLine bounds what is held of a line without an end; it is then told in pieces.
	maxLine = 4 << 10
	// maxText bounds each name and each error.
	maxText = 256
)

// Log turns what an engine says of a build into lines. It is for one build and not safe
// for concurrent use.
type Log struct {
	// Line gets each line, with its end.
	Line func(string)
	// Progress gets each step as it begins, and how far the layers of base images are;
	// nil: nobody wants it.
	Progress func(spec.Progress)

	steps map[string]*step
}

// step is what has been told of a step.
type step struct {
	number        int
	named, cached bool
	failed        bool
	partial       []byte // the beginning of a line
}

// Take tells what a message of type StatusResponse says. An error means that it is none.
func (l *Log) Take(message []byte) error {
	t, err := parseTrace(message)
	if err != nil {
		return err
	}
	for _, v := range t.vertexes {
		l.begin(v)
	}
	for _, o := range t.logs {
		if s := l.step(o.vertex); s != nil {
			l.write(s, o.data)
		}
	}
	for _, v := range t.vertexes {
		l.end(v)
	}
	for _, s := range t.statuses {
		l.layer(s)
	}
	for _, w := range t.warnings {
		l.Line("WARNING: " + clip(w) + "\n")
	}
	return nil
}

// step returns what is known of a step, nil where there are too many.
func (l *Log) step(digest string) *step {
	s, ok := l.steps[digest]
	switch {
	case ok:
		return s
	case len(l.steps) == maxSteps:
		return nil
	case l.steps == nil:
		l.steps = map[string]*step{}
	}
	s = &step{number: len(l.steps) + 1}
	l.steps[digest] = s
	return s
}

// begin tells the name of a step once it has begun. Steps that never do are not told of.
func (l *Log) begin(v vertex) {
	if !v.started && !v.cached && v.err == "" {
		return
	}
	s := l.step(v.digest)
	if s == nil || s.named {
		return
	}
	s.named = true
	name := clip(v.name)
	l.tell(s, name)
	if l.Progress != nil {
		l.Progress(spec.Progress{Step: "build", Message: name})
	}
}

// end tells how a step ended, each end once: a step that several others need ends in
// several messages.
func (l *Log) end(v vertex) {
	s, ok := l.steps[v.digest]
	if !ok {
		return
	}
	if v.ended && len(s.partial) > 0 {
		l.write(s, []byte("\n"))
	}
	if v.cached && !s.cached {
		s.cached = true
		l.tell(s, "CACHED")
	}
	if v.err != "" && !s.failed {
		s.failed = true
		l.tell(s, "ERROR: "+clip(v.err))
	}
}

// write tells what a step has written, line by line.
func (l *Log) write(s *step, data []byte) {
	for part := range bytes.Lines(data) {
		for len(part) > 0 {
			n := min(len(part), maxLine-len(s.partial))
			s.partial, part = append(s.partial, part[:n]...), part[n:]
			if last := len(s.partial) - 1; s.partial[last] == '\n' || len(s.partial) == maxLine {
				l.tell(s, strings.TrimRight(string(s.partial), "\r\n"))
				s.partial = s.partial[:0]
			}
		}
	}
}

func (l *Log) tell(s *step, text string) { l.Line(fmt.Sprintf("#%d %s\n", s.number, text)) }

// layerID is how a layer of a base image is named.
var layerID = regexp.MustCompile(`^sha256:([0-9a-f]{12})[0-9a-f]{52}$`)

// layer reports how far a layer is.
func (l *Log) layer(s status) {
	id := layerID.FindStringSubmatch(s.id)
	if id == nil || l.Progress == nil {
		return
	}
	p := spec.Progress{Step: "pull", Part: id[1], Message: clip(s.state)}
	if s.total > 0 {
		p.Total, p.Done = s.total, min(max(s.done, 0), s.total)
	}
	l.Progress(p)
}

// clip bounds a text of somebody else's and makes it one line.
func clip(s string) string {
	s = s[:min(len(s), maxText)]
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
}
