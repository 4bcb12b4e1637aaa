package audit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/spec"
)

// MaxLineBytes is the most that a line has, its newline among them. Of a record that has
// more the longest texts are cut, and the line says so.
const MaxLineBytes = 64 << 10

// Line is one line of a log. In JSON, which holds UTF-8 only, args and paths that are none
// stand in members that end in _b64 too.
type Line struct {
	Time       time.Time        `json:"time"`
	Kind       spec.AuditKind   `json:"kind"`
	Ended      bool             `json:"ended"`
	Action     string           `json:"action"`
	Client     string           `json:"client,omitempty"`
	WriterPID  int              `json:"writer_pid"`
	Backend    string           `json:"backend"`
	Sandbox    string           `json:"sandbox,omitempty"`
	Key        spec.Key         `json:"key,omitempty"`
	ID         string           `json:"id,omitempty"`
	Name       string           `json:"name,omitempty"`
	Owner      string           `json:"owner,omitempty"`
	Args       []string         `json:"args,omitempty"`
	ArgsB64    []string         `json:"args_b64,omitempty"`
	Dir        string           `json:"dir,omitempty"`
	DirB64     string           `json:"dir_b64,omitempty"`
	Env        []string         `json:"env,omitempty"` // names only
	User       string           `json:"user,omitempty"`
	Path       string           `json:"path,omitempty"`
	PathB64    string           `json:"path_b64,omitempty"`
	NewPath    string           `json:"new_path,omitempty"`
	NewPathB64 string           `json:"new_path_b64,omitempty"`
	Count      int64            `json:"count,omitempty"`
	Exit       *Exit            `json:"exit,omitempty"`
	Kill       spec.KillOutcome `json:"kill,omitempty"` // of a terminate
	Code       spec.Code        `json:"code,omitempty"` // the error's
	Err        string           `json:"error,omitempty"`
	TookMS     int64            `json:"took_ms,omitempty"`
	Cut        bool             `json:"cut,omitempty"` // some text was too long
}

// Exit is how a command ended.
type Exit struct {
	Code       int              `json:"code"`
	Signal     int              `json:"signal,omitempty"`
	TimedOut   bool             `json:"timed_out,omitempty"`
	NoOutput   bool             `json:"no_output,omitempty"`
	OOM        bool             `json:"out_of_memory,omitempty"`
	Kill       spec.KillOutcome `json:"kill,omitempty"`
	DurationMS int64            `json:"duration_ms"`
	// HostExecutable are spec.Exit's.
	HostExecutable []string `json:"host_executable,omitempty"`
}

// line makes a line of a record, with what is secret taken out.
func (l *Log) line(r *spec.AuditRecord) *Line {
	text := l.secrets.text
	out := &Line{
		Time: r.Time.UTC(), Kind: r.Kind, Ended: r.Ended, Action: r.Action, Client: r.Client, WriterPID: l.pid,
		Backend: r.Backend, Sandbox: text(r.Sandbox), Key: spec.Key(text(string(r.Key))), ID: text(r.ID), Name: text(r.Name), Owner: text(r.Owner),
		Args: l.secrets.texts(r.Args), Dir: text(r.Dir), Env: l.secrets.texts(r.Env), User: text(r.User),
		Path: text(r.Path), NewPath: text(r.NewPath), Count: r.Count, Kill: r.Kill,
		Code: spec.CodeOf(r.Err), Err: l.secrets.cause(r.Err), TookMS: r.Took.Milliseconds(),
	}
	if e := r.Exit; e != nil {
		out.Exit = &Exit{
			Code: e.Code, Signal: e.Signal, TimedOut: e.TimedOut, NoOutput: e.NoOutput, OOM: e.OOM != nil, Kill: e.Kill,
			DurationMS: e.Duration.Milliseconds(), HostExecutable: l.secrets.texts(e.HostExecutable),
		}
	}
	return out
}

// encode makes a line of at most MaxLineBytes.
func (l *Line) encode() ([]byte, error) {
	for most := MaxLineBytes; most > 0; most /= 2 {
		data, err := json.Marshal(l.within(most))
		if err != nil {
			return nil, err
		}
		if len(data) < MaxLineBytes {
			return append(data, '\n'), nil
		}
	}
	return nil, errors.New("a record of numbers alone is too long") // there is none
}

// within returns a copy with at most so many bytes in each of its texts and lists, and what
// is not UTF-8 in base64 too.
func (l *Line) within(most int) *Line {
	out := *l
	for _, s := range []*string{&out.Sandbox, (*string)(&out.Key), &out.ID, &out.Name, &out.Owner, &out.Dir, &out.User, &out.Path, &out.NewPath, &out.Err} {
		if len(*s) > most {
			*s, out.Cut = (*s)[:most], true
		}
	}
	lists := []*[]string{&out.Args, &out.Env}
	if l.Exit != nil {
		exit := *l.Exit
		out.Exit = &exit
		lists = append(lists, &exit.HostExecutable)
	}
	for _, list := range lists {
		if short, cut := cutList(*list, most); cut {
			*list, out.Cut = short, true
		}
	}
	if slices.ContainsFunc(out.Args, func(s string) bool { return !utf8.ValidString(s) }) {
		out.ArgsB64 = make([]string, len(out.Args))
		out.Args = slices.Clone(out.Args)
		for i, s := range out.Args {
			out.Args[i], out.ArgsB64[i] = printable(s), base64.StdEncoding.EncodeToString([]byte(s))
		}
	}
	for _, p := range []struct{ text, exact *string }{{&out.Dir, &out.DirB64}, {&out.Path, &out.PathB64}, {&out.NewPath, &out.NewPathB64}} {
		if !utf8.ValidString(*p.text) {
			*p.text, *p.exact = printable(*p.text), base64.StdEncoding.EncodeToString([]byte(*p.text))
		}
	}
	return &out
}

// printable makes one U+FFFD of each ill-formed byte.
func printable(s string) string { return string([]rune(s)) }

// cutList returns as much of a list as has at most so many bytes.
func cutList(list []string, most int) (short []string, cut bool) {
	const each = 4 // quotes, a comma, something more
	for i, s := range list {
		if most -= each; len(s) > most {
			return append(slices.Clone(list[:i]), s[:max(most, 0)]), true
		}
		most -= len(s)
	}
	return list, false
}

// exact replaces what was said twice by its exact form.
func (l *Line) exact() error {
	undo := func(name, b64 string, text *string) error {
		data, err := base64.StdEncoding.Strict().DecodeString(b64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*text = string(data)
		return nil
	}
	for i, b64 := range l.ArgsB64 {
		if i >= len(l.Args) {
			break
		}
		if err := undo("args_b64", b64, &l.Args[i]); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name, b64 string
		text      *string
	}{{"dir_b64", l.DirB64, &l.Dir}, {"path_b64", l.PathB64, &l.Path}, {"new_path_b64", l.NewPathB64, &l.NewPath}} {
		if p.b64 != "" {
			if err := undo(p.name, p.b64, p.text); err != nil {
				return err
			}
		}
	}
	return nil
}
