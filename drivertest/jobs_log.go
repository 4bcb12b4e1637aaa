package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// jobLogCases are about the logs of jobs, and the kept output of commands.
func jobLogCases() []Case {
	return []Case{
		{Name: "JobLogIsInterleaved", Rule: "stdout and stderr go to one log in the order of the job's writes.", Need: needJobs, Run: logOrder},
		{Name: "JobLogWindows", Rule: "A window is the lines that it names, counted from 1 or from the end, or the bytes from an offset; past the end it is empty.", Need: needJobs, Run: logWindows},
		{Name: "JobLogIsBytes", Rule: "A last line without a newline counts, blank lines stay, and bytes are bytes.", Need: needJobs, Run: logBytes},
		{Name: "JobLogPages", Rule: "Lines returns whole lines, and says whether there are more and whether the last one is all of its line.", Need: needJobs, Run: logPages},
		{Name: "JobLogFollows", Rule: "Follow goes on with what is written later, until the job has ended and its log is complete.", Need: needJobs, Run: logFollow},
		{Name: "JobLogFollowEndsWithItsReader", Rule: "ctx bounds the life of a log; Close ends a Read that waits.", Need: needJobs, Run: logFollowEnds},
		{Name: "JobLogCapStopsTheLog", Rule: "The size cap stops the log and never the job: what comes after is read, counted and dropped.", Need: needJobs, Run: logCap},
		{Name: "JobLogIsAFile", Rule: "LogPath is where the log lies inside the place, readable like any file.", Need: needJobs, Run: logPath},
		{Name: "JobLogChangedFromInside", Rule: "A log that a command has cut or removed is an error or other bytes, never a wait; the job goes on.", Need: needJobs, Run: logTampered},
		{Name: "JobBackgroundChildDoesNotHoldTheEnd", Rule: "A background child that keeps the pipe does not hold up the end of a job, and lives on.", Need: needJobs, Run: logBackground},
		{Name: "KeptOutputIsWhole", Rule: "The kept output of a command is a job of the owner \"\" that has ended, whole and paged, in the order in which it arrived.", Need: needJobs, Run: logKept},
		{Name: "KeptOutputWithoutAReader", Rule: "A stream that nobody takes is kept and counted like one that somebody does.", Need: needJobs, Run: logKeptUnread},
		{Name: "JobLogReadsAreEqual", Rule: "A window of a 10-million-line log is read as fast at its start as in its middle and at its end.", Need: needJobs, Soak: true, Run: logHuge},
	}
}

// log reads a job's whole log; an error is fatal.
func (e *Env) log(ctx context.Context, t T, j *berth.Job) []byte {
	t.Helper()
	data, _ := e.window(ctx, t, j, berth.LogWindow{})
	return data
}

// window reads a window of a log to its end; an error is fatal.
func (e *Env) window(ctx context.Context, t T, j *berth.Job, w berth.LogWindow) ([]byte, berth.LogInfo) {
	t.Helper()
	log, err := j.OpenLog(ctx, w)
	if err != nil {
		t.Fatalf("open %+v of the log of %s: %v", w, j.ID(), err)
	}
	defer log.Close()
	data, err := io.ReadAll(log)
	if err != nil {
		t.Fatalf("read %+v of the log of %s: %v", w, j.ID(), err)
	}
	return data, log.Info()
}

func logOrder(ctx context.Context, t T, e *Env) {
	j, info := e.runJob(ctx, t, e.jobs(), "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done", berth.JobOptions{})
	var want strings.Builder
	for i := range 5 {
		fmt.Fprintf(&want, "out %d\nerr %d\n", i+1, i+1)
	}
	wantText(t, "log", e.log(ctx, t, j), want.String())
	if info.LogLines != 10 || info.LogBytes != int64(want.Len()) || info.LogOmittedBytes != 0 {
		t.Errorf("%+v", info)
	}
}

func logWindows(ctx context.Context, t T, e *Env) {
	j, _ := e.runJob(ctx, t, e.jobs(), "i=1; while [ $i -le 1000 ]; do echo $i; i=$((i+1)); done", berth.JobOptions{})
	whole := string(e.log(ctx, t, j))
	lines := strings.SplitAfter(whole, "\n")[:1000]
	span := func(from, to int) string { return strings.Join(lines[from-1:to], "") }
	for _, c := range []struct {
		w     berth.LogWindow
		want  string
		first int64
	}{
		{berth.LogWindow{}, span(1, 1000), 1},
		{berth.LogWindow{From: 1, Lines: 1}, "1\n", 1},
		{berth.LogWindow{From: 2, Lines: 3}, span(2, 4), 2},
		{berth.LogWindow{From: 500, Lines: 2}, span(500, 501), 500},
		{berth.LogWindow{From: 1000, Lines: 400}, "1000\n", 1000},
		{berth.LogWindow{From: 1001}, "", 1001},
		{berth.LogWindow{From: 1 << 40, Lines: 5}, "", 1001},
		{berth.LogWindow{From: -1}, "1000\n", 1000},
		{berth.LogWindow{From: -10, Lines: 2}, span(991, 992), 991},
		{berth.LogWindow{From: -5000, Lines: 1}, "1\n", 1},
		{berth.LogWindow{From: 10, MaxBytes: 4}, "10\n1", 10},
		{berth.LogWindow{Offset: 2, Lines: 1}, "2\n", 2},
		{berth.LogWindow{Offset: 1, Lines: 1}, "\n", 1},
		{berth.LogWindow{Offset: int64(len(whole)) + 100}, "", 1001},
		{berth.LogWindow{From: 998, Follow: true}, span(998, 1000), 998},
	} {
		got, info := e.window(ctx, t, j, c.w)
		if string(got) != c.want || info.FirstLine != c.first || info.Lines != 1000 || info.Bytes != int64(len(whole)) || !info.Complete {
			t.Errorf("%+v: %.40q, %+v; want %.40q from line %d", c.w, got, info, c.want, c.first)
		}
	}
	open, _ := e.runJob(ctx, t, e.jobs(), `printf 'one\ntw'`, berth.JobOptions{})
	for _, w := range []berth.LogWindow{{Offset: 6}, {Offset: 100}, {From: 3}} {
		if got, info := e.window(ctx, t, open, w); len(got) > 0 || info.FirstLine != 3 || info.Lines != 2 || info.Offset != 6 {
			t.Errorf("%+v of a log whose last line is open: %q, %+v; want nothing from line 3", w, got, info)
		}
	}
	for _, w := range []berth.LogWindow{{Lines: -1}, {Offset: -1}, {MaxBytes: -1}, {From: 2, Offset: 5}} {
		_, err := j.OpenLog(ctx, w)
		wantError(t, fmt.Sprintf("%+v", w), err, spec.ErrInvalid)
	}
}

func logBytes(ctx context.Context, t T, e *Env) {
	file, data := e.file("noise"), append([]byte("\n\n\r\n\x00\xff\xfe\n"), noise(200_000, 7)...)
	e.write(ctx, t, file, data, files.WriteOptions{})
	data = append(data, "end without a newline"...)
	j, info := e.runJob(ctx, t, e.jobs(), "cat "+file+"; printf 'end without a newline'", berth.JobOptions{})
	wantText(t, "log", e.log(ctx, t, j), string(data))
	count := int64(bytes.Count(data, []byte("\n"))) + 1
	if info.LogLines != count {
		t.Errorf("%d lines, want %d", info.LogLines, count)
	}
	last, about := e.window(ctx, t, j, berth.LogWindow{From: -1})
	wantText(t, "the last line", last, string(data[bytes.LastIndexByte(data, '\n')+1:]))
	if about.FirstLine != count {
		t.Errorf("it is line %d of %d", about.FirstLine, count)
	}
	j, info = e.runJob(ctx, t, e.jobs(), "exit 0", berth.JobOptions{})
	empty, about := e.window(ctx, t, j, berth.LogWindow{})
	if len(empty) != 0 || info.LogLines != 0 || about.FirstLine != 1 || about.Lines != 0 || !about.Complete {
		t.Errorf("an empty log: %q, %+v, %+v", empty, info, about)
	}
}

func logPages(ctx context.Context, t T, e *Env) {
	j, _ := e.runJob(ctx, t, e.jobs(), "i=1; while [ $i -le 1000 ]; do echo $i; i=$((i+1)); done; printf last", berth.JobOptions{})
	whole := e.log(ctx, t, j)
	var got []byte
	pages := 0
	for from := int64(1); ; pages++ {
		p, err := j.Lines(ctx, from, 0)
		if err != nil {
			t.Fatalf("page from %d: %v", from, err)
		}
		got = append(got, p.Data...)
		if p.FirstLine != from || p.Lines != 1001 || !p.Complete || p.Cut || pages > 5 {
			t.Errorf("page from %d: %d to %d, %+v", from, p.FirstLine, p.LastLine, p.Lines)
		}
		if !p.More {
			break
		}
		from = p.LastLine + 1
	}
	wantText(t, "the pages", got, string(whole))
	if pages != 2 { // 400, 400 and 201 lines
		t.Errorf("%d pages before the last one", pages)
	}
	if p, err := j.Lines(ctx, 2000, 5); err != nil || len(p.Data) != 0 || p.FirstLine != 1002 || p.LastLine != 1001 || p.More {
		t.Errorf("past the end: %+v, %v", p, err)
	}
	if _, err := j.Lines(ctx, 1, -1); err == nil {
		t.Errorf("a page of -1 lines")
	}
	// A line that is longer than a page, and one that is not over.
	j = e.start(ctx, t, e.jobs(), "head -c 300000 /dev/zero | tr '\\0' x; echo; printf 'Password: '; exec sleep 300", berth.JobOptions{})
	e.Eventually(ctx, func() bool { return e.info(ctx, t, j).LogBytes == 300_011 })
	p, err := j.Lines(ctx, 1, 0)
	if err != nil || len(p.Data) != berth.MaxLogPageBytes || !p.Cut || !p.More || p.LastLine != 1 || p.Complete {
		t.Errorf("a long line: %d bytes, cut %v, more %v, %v", len(p.Data), p.Cut, p.More, err)
	}
	p, err = j.Lines(ctx, 2, 0)
	if err != nil || string(p.Data) != "Password: " || !p.Cut || p.More || p.LastLine != 2 {
		t.Errorf("an open line: %+v, %v", p, err)
	}
}

func logFollow(ctx context.Context, t T, e *Env) {
	gate := e.file("gate")
	j := e.start(ctx, t, e.jobs(), "echo one; until [ -e "+gate+" ]; do sleep 0.05; done; echo two; printf three", berth.JobOptions{})
	log, err := j.OpenLog(ctx, berth.LogWindow{Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	defer log.Close()
	line := make([]byte, 4)
	if _, err := io.ReadFull(log, line); err != nil || string(line) != "one\n" {
		t.Fatalf("the first line: %q, %v", line, err)
	}
	if log.Info().Complete {
		t.Errorf("the log of a running job is complete")
	}
	tail, err := j.OpenLog(ctx, berth.LogWindow{From: 2, Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	defer tail.Close()
	bounded, err := j.OpenLog(ctx, berth.LogWindow{From: 2, Lines: 1, Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	defer bounded.Close()
	e.write(ctx, t, gate, nil, files.WriteOptions{})
	for _, f := range []struct {
		name string
		log  berth.Log
		want string
	}{{"bounded", bounded, "two\n"}, {"tail", tail, "two\nthree"}, {"whole", log, "two\nthree"}} {
		rest, err := io.ReadAll(f.log)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		wantText(t, f.name, rest, f.want)
	}
	if info := e.ended(ctx, t, j); info.LogLines != 3 {
		t.Errorf("%+v", info)
	}
}

func logFollowEnds(ctx context.Context, t T, e *Env) {
	j := e.start(ctx, t, e.jobs(), "exec sleep 300", berth.JobOptions{})
	little, cancel := context.WithTimeout(ctx, short)
	defer cancel()
	log, err := j.OpenLog(little, berth.LogWindow{Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	defer log.Close()
	_, err = io.ReadAll(log)
	wantError(t, "a log whose context has ended", err, context.DeadlineExceeded)
	log, err = j.OpenLog(ctx, berth.LogWindow{Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	time.AfterFunc(short, func() { log.Close() })
	if n, err := log.Read(make([]byte, 10)); err == nil || err == io.EOF {
		t.Errorf("a closed log: %d, %v", n, err)
	}
	if !e.info(ctx, t, j).Running() {
		t.Errorf("the job ended with its reader")
	}
}

func logCap(ctx context.Context, t T, e *Env) {
	file := e.file("after")
	j, info := e.runJob(ctx, t, e.jobs(), "head -c 1000000 /dev/zero; echo done >"+file, berth.JobOptions{MaxLogBytes: 100_000})
	if info.State != spec.JobExited || info.Exit.Code != 0 || info.LogBytes != 100_000 || info.LogOmittedBytes != 900_000 {
		t.Errorf("%+v", info)
	}
	if n := len(e.log(ctx, t, j)); n != 100_000 {
		t.Errorf("the log has %d bytes", n)
	}
	data, err := e.Sandbox.Files().ReadFile(ctx, file)
	if err != nil || string(data) != "done\n" {
		t.Errorf("the job wrote %q, %v", data, err)
	}
	_, info = e.runJob(ctx, t, e.jobs(), "printf 12345", berth.JobOptions{MaxLogBytes: 5})
	if info.LogBytes != 5 || info.LogOmittedBytes != 0 {
		t.Errorf("exactly the cap: %+v", info)
	}
}

func logPath(ctx context.Context, t T, e *Env) {
	j, info := e.runJob(ctx, t, e.jobs(), "echo found", berth.JobOptions{})
	if !strings.HasPrefix(info.LogPath, "/") || !strings.Contains(info.LogPath, j.ID()) {
		t.Errorf("the log lies at %q", info.LogPath)
	}
	data, err := e.Sandbox.Files().ReadFile(ctx, info.LogPath)
	if err != nil {
		t.Errorf("read %q: %v", info.LogPath, err)
	}
	wantText(t, "the file", data, "found\n")
	st, err := e.Sandbox.Files().Stat(ctx, info.LogPath, files.StatOptions{})
	if err != nil || st.Mode.Perm() != 0o600 {
		t.Errorf("the file is %+v, %v; want mode 0600", st, err)
	}
}

func logTampered(ctx context.Context, t T, e *Env) {
	jobs := e.jobs()
	const lines = "i=0; while [ $i -lt 20000 ]; do echo a line of the log; i=$((i+1)); done"
	for name, harm := range map[string]string{
		"cut": `: >"$1"`, "removed": `rm "$1"`, "a FIFO": `rm "$1"; mkfifo "$1"`, "a directory": `rm "$1"; mkdir "$1"`, "a link": `rm "$1"; ln -s /dev/zero "$1"`, "other": `echo other >"$1"`,
	} {
		j, info := e.runJob(ctx, t, jobs, lines, berth.JobOptions{})
		r := e.Exec(ctx, t, []string{"sh", "-c", harm, "sh", info.LogPath}, berth.ExecOptions{})
		if !r.Success() {
			continue // the place has no mkfifo
		}
		for _, w := range []berth.LogWindow{{}, {From: 19_000, Lines: 2}, {From: -5}, {Offset: 100_000, MaxBytes: 10}, {From: 1, Follow: true}} {
			log, err := j.OpenLog(ctx, w)
			if err != nil {
				continue
			}
			data, err := io.ReadAll(log)
			log.Close()
			if err == nil && int64(len(data)) > info.LogBytes {
				t.Errorf("%s, %+v: %d bytes of a log of %d", name, w, len(data), info.LogBytes)
			}
		}
		if _, err := e.Sandbox.Exec(ctx, []string{"rm", "-rf", info.LogPath}, berth.ExecOptions{}); err != nil {
			t.Errorf("clear up: %v", err)
		}
	}
	// While it is written.
	gate := e.file("gate")
	j := e.start(ctx, t, jobs, "echo one; until [ -e "+gate+" ]; do sleep 0.05; done; echo two", berth.JobOptions{})
	e.Eventually(ctx, func() bool { return e.info(ctx, t, j).LogLines == 1 })
	e.Exec(ctx, t, []string{"rm", e.info(ctx, t, j).LogPath}, berth.ExecOptions{})
	log, err := j.OpenLog(ctx, berth.LogWindow{Follow: true})
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	defer log.Close()
	e.write(ctx, t, gate, nil, files.WriteOptions{})
	data, err := io.ReadAll(log)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	wantText(t, "what is still open", data, "one\ntwo\n")
	if info := e.ended(ctx, t, j); info.Exit.Code != 0 || info.LogLines != 2 {
		t.Errorf("%+v", info)
	}
}

func logBackground(ctx context.Context, t T, e *Env) {
	began := time.Now()
	j, info := e.runJob(ctx, t, e.jobs(), "sleep 300 & echo started", berth.JobOptions{})
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the end took %v", took)
	}
	if info.State != spec.JobExited || info.Exit.Code != 0 {
		t.Errorf("%+v", info)
	}
	wantText(t, "log", e.log(ctx, t, j), "started\n")
	e.endMarked(ctx, t)
}

func logKept(ctx context.Context, t T, e *Env) {
	const script = "i=1; while [ $i -le 30000 ]; do echo this is line $i; i=$((i+1)); done; sleep 1; echo warned >&2; exit 3"
	r := e.Exec(ctx, t, berth.Shell(script), berth.ExecOptions{KeepOutput: true, MaxOutputBytes: 100})
	if r.ExitCode != 3 || r.LogID == "" || len(r.Stdout) != 100 || !r.Truncated {
		t.Fatalf("code %d, log %q, %d bytes", r.ExitCode, r.LogID, len(r.Stdout))
	}
	jobs := e.Sandbox.Jobs("")
	j, err := jobs.Get(ctx, r.LogID)
	if err != nil {
		t.Fatalf("get %s: %v", r.LogID, err)
	}
	info := e.info(ctx, t, j)
	if info.State != spec.JobExited || info.Exit.Code != 3 || info.LogLines != 30_001 || info.LogBytes != int64(len(r.Stdout)+len(r.Stderr))+r.StdoutOmitted {
		t.Errorf("%+v", info)
	}
	page, err := j.Lines(ctx, 29_999, 10)
	if err != nil {
		t.Fatalf("page: %v", err)
	}
	wantText(t, "the last lines", page.Data, "this is line 29999\nthis is line 30000\nwarned\n")
	if page.LastLine != 30_001 || page.More || !page.Complete {
		t.Errorf("%+v", page)
	}
	if again := e.ended(ctx, t, j); again.ID != r.LogID {
		t.Errorf("%+v", again)
	}
	keyed := berth.ExecOptions{KeepOutput: true, Key: "kept-" + randomHex()}
	first := e.Exec(ctx, t, berth.Shell("echo once"), keyed)
	second := e.Exec(ctx, t, berth.Shell("echo once"), keyed)
	if first.LogID == "" || first.LogID != second.LogID {
		t.Errorf("logs %q and %q under one key", first.LogID, second.LogID)
	}
	r = e.Exec(ctx, t, berth.Shell("echo; sleep 300"), berth.ExecOptions{KeepOutput: true, Timeout: short, Grace: -1})
	if j, err = jobs.Get(ctx, r.LogID); err != nil {
		t.Fatalf("get %q: %v", r.LogID, err)
	}
	if info := e.info(ctx, t, j); info.State != spec.JobKilled || !info.Exit.TimedOut {
		t.Errorf("%+v", info)
	}
	if r := e.Sh(ctx, t, "true"); r.LogID != "" {
		t.Errorf("log %q that nobody asked for", r.LogID)
	}
}

func logKeptUnread(ctx context.Context, t T, e *Env) {
	c := &berth.Command{Args: berth.Shell("echo to nobody; echo nor this >&2"), KeepOutput: true}
	p, err := e.Sandbox.Start(ctx, c, berth.Stdio{})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	exit, err := p.Wait(ctx)
	if err != nil || exit.LogID == "" || exit.StdoutBytes != 10 || exit.StderrBytes != 9 {
		t.Fatalf("%+v, %v", exit, err)
	}
	j, err := e.Sandbox.Jobs("").Get(ctx, exit.LogID)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	lines := strings.SplitAfter(string(e.log(ctx, t, j)), "\n")
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"", "nor this\n", "to nobody\n"}) {
		t.Errorf("%q", lines)
	}
}

func logHuge(ctx context.Context, t T, e *Env) {
	const lines = 10_000_000
	j, info := e.runJob(ctx, t, e.jobs(), fmt.Sprintf("yes this is a line of the log, of a usual length | head -n %d", lines), berth.JobOptions{})
	if info.LogLines != lines {
		t.Fatalf("%+v", info)
	}
	at := map[string]int64{"start": 1, "middle": lines / 2, "end": lines - 400}
	took := map[string][]time.Duration{}
	for range 31 {
		for name, from := range at { // interleaved, so that a busy machine is busy for all
			began := time.Now()
			p, err := j.Lines(ctx, from, 400)
			if err != nil || p.FirstLine != from || p.LastLine != from+399 {
				t.Fatalf("%s: %+v, %v", name, p, err)
			}
			took[name] = append(took[name], time.Since(began))
		}
	}
	median := map[string]time.Duration{}
	for name, all := range took {
		slices.Sort(all)
		median[name] = all[len(all)/2]
	}
	t.Logf("400 lines of %d: %v", lines, median)
	for name, m := range median {
		if m > 4*median["start"]+2*time.Millisecond {
			t.Errorf("%s: %v, at the start %v", name, m, median["start"])
		}
	}
}
