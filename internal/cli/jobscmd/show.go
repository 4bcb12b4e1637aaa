package jobscmd

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// jobLine is one job as JSON has it.
type jobLine struct {
	ID    string         `json:"id"`
	Owner string         `json:"owner"`
	State berth.JobState `json:"state"`
	Args  []string       `json:"args"`
	// ArgsB64 has the arguments in base64 where one of them is not UTF-8.
	ArgsB64         [][]byte  `json:"args_b64,omitempty"`
	Dir             string    `json:"dir,omitempty"`
	PID             int       `json:"pid,omitempty"`
	Started         time.Time `json:"started,omitzero"`
	Ended           time.Time `json:"ended,omitzero"`
	Exit            *exitLine `json:"exit,omitempty"` // of a job that has ended and is not lost
	LogLines        int64     `json:"log_lines"`
	LogBytes        int64     `json:"log_bytes"`
	LogOmittedBytes int64     `json:"log_omitted_bytes"`
	LogPath         string    `json:"log_path,omitempty"`
}

type exitLine struct {
	verb.Ending
	Kill        spec.KillOutcome `json:"kill,omitempty"`
	Survivors   []spec.Survivor  `json:"survivors,omitempty"`
	DurationMS  int64            `json:"duration_ms"`
	UserMS      int64            `json:"user_ms"`
	SystemMS    int64            `json:"system_ms"`
	MaxRSSBytes int64            `json:"max_rss_bytes"`
}

func newJobLine(j berth.JobInfo) jobLine {
	l := jobLine{
		ID: j.ID, Owner: j.Owner, State: j.State, Args: j.Args, ArgsB64: console.Exact(j.Args), Dir: j.Dir, PID: j.PID, Started: j.Started, Ended: j.Ended,
		LogLines: j.LogLines, LogBytes: j.LogBytes, LogOmittedBytes: j.LogOmittedBytes, LogPath: j.LogPath,
	}
	if e := j.Exit; !j.Running() && j.State != berth.JobLost {
		l.Exit = &exitLine{
			Ending: verb.NewEnding(e), Kill: e.Kill, Survivors: e.Survivors,
			DurationMS: e.Duration.Milliseconds(), UserMS: e.UserTime.Milliseconds(), SystemMS: e.SystemTime.Milliseconds(), MaxRSSBytes: e.MaxRSSBytes,
		}
	}
	return l
}

// row describes a job in a line of a table.
func row(j berth.JobInfo) []string {
	exit, took := "-", "-"
	switch {
	case j.Running():
		took = console.Short(max(time.Since(j.Started), 0))
	case j.State != berth.JobLost:
		exit, took = strings.TrimPrefix(j.Exit.String(), "exit status "), console.Short(j.Exit.Duration)
	}
	return []string{
		j.ID, string(j.State), exit, j.Started.UTC().Format("2006-01-02T15:04:05Z"), took,
		strconv.FormatInt(j.LogLines, 10), console.Bytes(j.LogBytes), commandLine(j.Args),
	}
}

// commandLine shows a command to a person, cut where it is long.
func commandLine(args []string) string {
	const width = 60
	text := console.Clean(strings.Join(args, " "))
	if runes := []rune(text); len(runes) > width {
		text = string(runes[:width-3]) + "..."
	}
	return text
}

// explain adds what helps with a job that is not known.
func explain(err error) error {
	if spec.CodeOf(err) != spec.CodeNotFound || spec.HintOf(err) != "" {
		return err
	}
	e := spec.Wrap(err, "", "", "", "").(*spec.Error)
	e.Hint = "`berth jobs ls` lists the jobs of one owner; --job-owner NAME says whose"
	return e
}
