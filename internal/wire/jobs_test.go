package wire_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

func runningJob() wire.Job {
	return wire.Job{ID: "job-7", Owner: "me", Args: []wire.Bytes{wire.Bytes("sh"), wire.Bytes("\xff\x00")}, Dir: wire.Bytes("d\n"), State: "running", PID: 12, StartedUnixNS: 5, LogLines: 2, LogBytes: 10, LogPath: wire.Bytes("/s/job-7.log")}
}

func endedJob() wire.Job {
	j := runningJob()
	j.State, j.EndedUnixNS, j.Exit = "exited", 9, &wire.Exit{Code: 3}
	return j
}

// A job's record crosses the wire byte for byte.
func TestJobRoundTrip(t *testing.T) {
	got := throughJSON(t, endedJob())
	job, err := got.Spec()
	want := spec.Job{
		ID: "job-7", Owner: "me", Args: []string{"sh", "\xff\x00"}, Dir: "d\n", State: spec.JobExited, PID: 12,
		Started: time.Unix(0, 5), Ended: time.Unix(0, 9), Exit: spec.Exit{Code: 3}, LogLines: 2, LogBytes: 10, LogPath: "/s/job-7.log",
	}
	if diff := cmp.Diff(want, job); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	running := throughJSON(t, runningJob())
	if job, err = running.Spec(); err != nil || !job.Running() || !job.Ended.IsZero() {
		t.Errorf("%+v, %v", job, err)
	}
}

// A place's clock that is set back while a job runs does not end it before it started.
func TestJobOverAClockThatIsSetBack(t *testing.T) {
	j := endedJob()
	j.StartedUnixNS, j.EndedUnixNS = 9, 5
	if job, err := j.Spec(); err != nil || job.Ended.Before(job.Started) {
		t.Errorf("%+v, %v", job, err)
	}
}

// A record that contradicts itself, or is out of its bounds, is refused whole.
func TestJobOfAnUntrustedGuest(t *testing.T) {
	tests := map[string]func(*wire.Job){
		"no id":                     func(j *wire.Job) { j.ID = "" },
		"a path as id":              func(j *wire.Job) { j.ID = "job-../../x" },
		"a number with zeros":       func(j *wire.Job) { j.ID = "job-007" },
		"a number below one":        func(j *wire.Job) { j.ID = "job-0" },
		"a negative number":         func(j *wire.Job) { j.ID = "job--1" },
		"a number out of range":     func(j *wire.Job) { j.ID = "job-9999999999999999" },
		"a bad owner":               func(j *wire.Job) { j.Owner = "a b" },
		"an unknown state":          func(j *wire.Job) { j.State = "ok" },
		"running and ended":         func(j *wire.Job) { j.State = "running" },
		"ended without an exit":     func(j *wire.Job) { j.Exit = nil },
		"ended at no time":          func(j *wire.Job) { j.EndedUnixNS = 0 },
		"lost with an exit":         func(j *wire.Job) { j.State = "lost" },
		"an impossible exit":        func(j *wire.Job) { j.Exit = &wire.Exit{Code: 300} },
		"another job's kept output": func(j *wire.Job) { j.Exit = &wire.Exit{LogID: "x"} },
		"a negative time":           func(j *wire.Job) { j.StartedUnixNS = -1 },
		"a negative pid":            func(j *wire.Job) { j.PID = -1 },
		"more lines than bytes":     func(j *wire.Job) { j.LogLines = 11 },
		"a negative log":            func(j *wire.Job) { j.LogOmittedBytes = -1 },
		"a huge log":                func(j *wire.Job) { j.LogBytes = 1 << 50 },
		"a long argument":           func(j *wire.Job) { j.Args = []wire.Bytes{make([]byte, wire.MaxJobArgBytes+1)} },
		"many arguments":            func(j *wire.Job) { j.Args = make([]wire.Bytes, wire.MaxJobArgs+1) },
		"a long path":               func(j *wire.Job) { j.LogPath = make([]byte, spec.MaxPathBytes+1) },
		"a long directory":          func(j *wire.Job) { j.Dir = make([]byte, spec.MaxPathBytes+1) },
	}
	for name, spoil := range tests {
		j := endedJob()
		spoil(&j)
		if _, err := j.Spec(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%s: %v; want a protocol violation", name, err)
		}
	}
}

// An event is about a job that is as the event says.
func TestJobEventOfAnUntrustedGuest(t *testing.T) {
	running, ended := runningJob(), endedJob()
	for name, tt := range map[string]struct {
		event wire.JobEvent
		good  bool
	}{
		"an end":                {wire.JobEvent{Seq: "1", Kind: "ended", Job: &ended}, true},
		"a stall":               {wire.JobEvent{Seq: "1", Kind: "stalled", Job: &running, StalledNS: 5}, true},
		"an end of what runs":   {wire.JobEvent{Seq: "1", Kind: "ended", Job: &running}, false},
		"a stall of what ended": {wire.JobEvent{Seq: "1", Kind: "stalled", Job: &ended}, false},
		"another kind":          {wire.JobEvent{Seq: "1", Kind: "x", Job: &running}, false},
		"no job":                {wire.JobEvent{Seq: "1", Kind: "ended"}, false},
		"no number":             {wire.JobEvent{Kind: "ended", Job: &ended}, false},
		"a long number":         {wire.JobEvent{Seq: strings.Repeat("1", 1000), Kind: "ended", Job: &ended}, false},
		"a negative silence":    {wire.JobEvent{Seq: "1", Kind: "stalled", Job: &running, StalledNS: -1}, false},
	} {
		e, err := tt.event.Spec()
		if good := err == nil; good != tt.good || good && (e.Job.ID != "job-7" || e.StalledFor != time.Duration(tt.event.StalledNS)) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// What a guest says of a window is possible.
func TestLogInfoOfAnUntrustedGuest(t *testing.T) {
	for _, l := range []wire.LogInfo{{}, {FirstLine: 1, Offset: -1}, {FirstLine: 1, Offset: 2, Bytes: 1}, {FirstLine: 1, Lines: 2, Bytes: 1}, {FirstLine: 3, Lines: 1, Bytes: 9}, {FirstLine: 1, Lines: -1}, {FirstLine: 1, Bytes: -1}} {
		if _, err := l.Spec(); !errors.Is(err, wire.ErrProtocol) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	good := wire.LogInfo{FirstLine: 2, Offset: 4, Lines: 2, Bytes: 8, Complete: true}
	if info, err := good.Spec(); err != nil || info != (spec.LogInfo{FirstLine: 2, Offset: 4, Lines: 2, Bytes: 8, Complete: true}) {
		t.Errorf("%+v, %v", info, err)
	}
}

// A record holds the beginning of long arguments, within what the other side takes.
func TestJobArgs(t *testing.T) {
	long := strings.Repeat("x", wire.MaxJobArgBytes)
	for name, tt := range map[string]struct{ in, want []string }{
		"short":    {[]string{"a", "", "b"}, []string{"a", "", "b"}},
		"exactly":  {[]string{long}, []string{long}},
		"too long": {[]string{"ab" + long, "c"}, []string{"ab" + long[2:]}},
		"too many": {make([]string, 2*wire.MaxJobArgs), make([]string, wire.MaxJobArgs)},
	} {
		var got []string
		for _, a := range wire.JobArgs(tt.in) {
			got = append(got, string(a))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d arguments, %.20q", name, len(got), got)
		}
		j := runningJob()
		j.Args = wire.JobArgs(tt.in)
		if _, err := j.Spec(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzJob: whatever a guest says of a job is a record within its bounds, or an error.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"id":"job-1","state":"exited","ended_unix_ns":5,"exit":{"code":0},"args":["c2g="]}`))
	f.Add([]byte(`{"id":"job-1","state":"running"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var j wire.Job
		if json.Unmarshal(in, &j) != nil {
			return
		}
		job, err := j.Spec()
		if err != nil {
			return
		}
		if _, ok := wire.JobNumber(job.ID); !ok || job.Running() != job.Ended.IsZero() || job.LogLines > job.LogBytes {
			t.Errorf("%+v", job)
		}
		again := throughJSON(t, j)
		if second, err := again.Spec(); err != nil || !cmp.Equal(second, job) {
			t.Errorf("%+v becomes %+v, %v", job, second, err)
		}
	})
}
