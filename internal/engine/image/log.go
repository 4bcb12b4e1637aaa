package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/image/buildkit"
	"github.com/berth-dev/berth/spec"
)

const (
	// maxLogEnd is how much of a failed build's log is in its error.
	maxLogEnd = 1 << 10
	// traceID is the id of messages in which BuildKit says how a build goes on.
	traceID = "moby.buildkit.trace"
)

// buildLog takes in what a build says.
type buildLog struct {
	out      io.Writer // may be nil
	progress func(spec.Progress)
	trace    buildkit.Log
	kit      bool   // BuildKit builds
	untold   bool   // nobody is told what the build says
	end      []byte // the last of it
}

func newBuildLog(o driver.PrepareOptions) *buildLog {
	l := &buildLog{out: o.Log, progress: o.Progress, untold: o.Log == nil}
	l.trace = buildkit.Log{Line: l.tell, Progress: o.Progress}
	return l
}

func (l *buildLog) take(m message) error {
	if m.ID == traceID {
		l.kit = true
		var trace []byte
		if err := json.Unmarshal(m.Aux, &trace); err != nil {
			return err
		}
		return l.trace.Take(trace)
	}
	if p, ok := m.layer(); ok { // of a base image
		if l.progress != nil {
			l.progress(p)
		}
		return nil
	}
	text := m.Stream
	if text == "" && m.Status != "" {
		text = m.Status + "\n"
	}
	l.tell(text)
	if step := strings.TrimSpace(m.Stream); l.progress != nil && strings.HasPrefix(step, "Step ") {
		l.progress(spec.Progress{Step: "build", Message: clip(step)})
	}
	return nil
}

// tell adds to the log.
func (l *buildLog) tell(text string) {
	l.end = append(l.end, text...)
	l.end = l.end[max(0, len(l.end)-maxLogEnd):]
	if l.out == nil || text == "" {
		return
	}
	if _, err := io.WriteString(l.out, text); err != nil {
		l.out = nil // nobody reads it; the build goes on
	}
}

// failed is the error of a build that was carried out and failed. Where nobody has been
// told the log, it has the end of it.
func (l *buildLog) failed(why string) error {
	err := errors.New("the build failed: " + clip(why))
	out := &spec.Error{Code: spec.CodeInvalid, Err: err, Hint: "the log of the build says why"}
	if end := l.lastLines(); l.untold && end != "" {
		out.Err = fmt.Errorf("%w; its log ends: %s", err, end)
		out.Hint = "`berth image build DIR` shows all of its log"
	}
	if !l.kit && containsAny(why, "unknown flag: mount", "BuildKit", "buildkit", "heredoc", "here-document") {
		out.Hint = "the Dockerfile needs BuildKit, which builds where the engine has it, the Dockerfile is in its context and DOCKER_BUILDKIT is not 0"
	}
	return out
}

// lastLines are those of the end of the log that are whole, on one line.
func (l *buildLog) lastLines() string {
	end := strings.ToValidUTF8(string(l.end), "?")
	if _, whole, cut := strings.Cut(end, "\n"); cut && len(l.end) == maxLogEnd {
		end = whole
	}
	var lines []string
	for line := range strings.Lines(end) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " | ")
}
