package eventcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// clock is how a line shows a time.
const clock = "2006-01-02T15:04:05.000Z"

// eventLine is an event as JSON has it.
type eventLine struct {
	Seq        int64          `json:"seq"`
	Time       time.Time      `json:"time"`
	Kind       spec.EventKind `json:"kind"`
	Client     string         `json:"client,omitempty"`
	ID         string         `json:"id,omitempty"`
	Name       string         `json:"name,omitempty"` // the key that it was started with
	JobOwner   string         `json:"job_owner,omitempty"`
	Args       []string       `json:"args,omitempty"`
	ArgsB64    [][]byte       `json:"args_b64,omitempty"`
	PID        int            `json:"pid,omitempty"`
	Exit       *exitLine      `json:"exit,omitempty"`
	Path       *string        `json:"path,omitempty"`
	PathB64    *string        `json:"path_b64,omitempty"` // where it is not UTF-8
	OldPath    *string        `json:"old_path,omitempty"`
	OldPathB64 *string        `json:"old_path_b64,omitempty"`
	Address    string         `json:"address,omitempty"`
	Ended      bool           `json:"ended,omitempty"`
	Count      int64          `json:"count,omitempty"`
	Reason     string         `json:"reason,omitempty"`
}

type exitLine struct {
	verb.Ending
	Kill       spec.KillOutcome `json:"kill,omitempty"`
	DurationMS int64            `json:"duration_ms"`
}

func newEventLine(e berth.Event) eventLine {
	l := eventLine{
		Seq: e.Seq, Time: e.Time.UTC(), Kind: e.Kind, Client: e.Client, ID: e.ID, Name: e.Key, JobOwner: e.Owner, Args: e.Args, ArgsB64: console.Exact(e.Args),
		PID: e.PID, Address: e.Address, Ended: e.Ended, Count: e.Count, Reason: e.Reason,
	}
	if e.Exit != nil {
		l.Exit = &exitLine{Ending: verb.NewEnding(*e.Exit), Kill: e.Exit.Kill, DurationMS: e.Exit.Duration.Milliseconds()}
	}
	if e.Path != "" {
		l.Path, l.PathB64 = console.Text([]byte(e.Path))
	}
	if e.OldPath != "" {
		l.OldPath, l.OldPathB64 = console.Text([]byte(e.OldPath))
	}
	return l
}

// describe says an event in a line.
func describe(e berth.Event) string {
	words := []string{e.Time.UTC().Format(clock), fmt.Sprintf("%4d", e.Seq), string(e.Kind)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch e.Kind {
	case spec.EventClient:
		if e.Ended {
			words[len(words)-1] += "_left"
		}
		add("%.8s", e.Client)
	case spec.EventFileMoved:
		add("%s -> %s", e.OldPath, e.Path)
	case spec.EventMissed:
		add("%d events", e.Count)
	default:
		if id := e.ID; id != "" {
			add("%.8s", id)
		}
		if e.Key != "" {
			add("%s", e.Key)
		}
		if e.Exit != nil {
			add("%s after %s", e.Exit, console.Short(e.Exit.Duration))
		}
		words = append(words, e.Args...)
		for _, text := range []string{e.Path, e.Address, e.Reason} {
			if text != "" {
				add("%s", text)
			}
		}
		if e.Count > 0 {
			add("%d files", e.Count)
		}
	}
	return strings.Join(words, " ")
}

// ending says what the second record of an action tells: of what lives on in the sandbox
// it is the start that is over.
func ending(l audit.Line) string {
	switch {
	case l.Kind == spec.AuditCommand:
		return "_ended"
	case l.Err != "":
		return "_failed"
	case l.Kind == spec.AuditJob, l.Kind == spec.AuditTerminal, l.Kind == spec.AuditListen, l.Kind == spec.AuditDial:
		return "_started"
	}
	return "_done"
}

// describeRecord says a line of the log in a line for a person.
func describeRecord(l audit.Line) string {
	words := []string{l.Time.UTC().Format(clock), string(l.Kind)}
	if l.Ended {
		words[1] += ending(l)
	}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	add("%.8s", l.Action)
	for _, text := range []string{l.ID, l.Name} {
		if text != "" {
			add("%.32s", text)
		}
	}
	if e := l.Exit; e != nil {
		exit := spec.Exit{Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut}
		add("%s after %s", exit, console.Short(time.Duration(e.DurationMS)*time.Millisecond))
	}
	words = append(words, l.Args...)
	if l.Path != "" {
		add("%s", l.Path)
	}
	if l.NewPath != "" {
		add("-> %s", l.NewPath)
	}
	if l.Kill != "" {
		add("%s", l.Kill)
	}
	if l.Count > 0 {
		add("%d files", l.Count)
	}
	if l.Err != "" {
		add("failed: %s", l.Err)
	}
	return strings.Join(words, " ")
}
