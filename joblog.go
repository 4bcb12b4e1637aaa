package berth

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// OpenLog reads a part of the job's log, in time and memory that depend on the part
// and not on the log. The zero window is all of it. ctx bounds the life of the Log,
// which the caller closes.
func (j *Job) OpenLog(ctx context.Context, w LogWindow) (Log, error) {
	err := w.Validate()
	var jobber driver.Jobber
	if err == nil {
		jobber, err = j.jobs.jobber(ctx)
	}
	if err != nil {
		return nil, j.jobs.sb.wrap(err, "read log", "")
	}
	log, err := jobber.OpenLog(ctx, j.jobs.owner, j.id, w)
	if err != nil {
		return nil, j.jobs.sb.wrap(err, "read log", "")
	}
	return &openLog{Log: log, sb: j.jobs.sb}, nil
}

// openLog says in the errors of a log where they happened.
type openLog struct {
	driver.Log
	sb *Sandbox
}

func (o *openLog) Read(p []byte) (int, error) {
	n, err := o.Log.Read(p)
	return n, o.sb.wrap(err, "read log", "")
}

func (o *openLog) Close() error { return o.sb.wrap(o.Log.Close(), "read log", "") }

// DefaultLogLines is how many lines Job.Lines returns unless it is told a number, and
// MaxLogPageBytes the most bytes that it returns.
const (
	DefaultLogLines = 400
	MaxLogPageBytes = 256 << 10
)

// LogLines is a page of a job's log.
type LogLines struct {
	// Data are whole lines, with their newlines, unless Cut is set.
	Data []byte
	// FirstLine and LastLine are the numbers of the first and the last line in
	// Data, from 1. Of a page without lines LastLine is FirstLine-1.
	FirstLine, LastLine int64
	// Offset is where in the log Data begins.
	Offset int64
	// Lines is the length of the whole log at that moment, where a last line
	// without a newline counts.
	Lines int64
	// More: the log goes on after Data.
	More bool
	// Complete: the log does not grow any more.
	Complete bool
	// Cut: the last line in Data is not all of it, because it is the only one
	// and longer than a page, or because the job has not ended it yet. To go on,
	// read from LastLine again, or with OpenLog from Offset+len(Data).
	Cut bool
}

// Lines returns up to n lines (0: DefaultLogLines) of the log, from a line on that is
// counted from 1, or from the end if it is negative. It returns at most
// MaxLogPageBytes, in whole lines unless the first one alone is longer; to page on,
// ask from LastLine+1. Past the end is a page without lines.
func (j *Job) Lines(ctx context.Context, from int64, n int) (*LogLines, error) {
	if n < 0 {
		return nil, j.jobs.sb.wrap(spec.New(spec.CodeInvalid, fmt.Sprintf("a page of %d lines", n)), "read log", "")
	}
	if n == 0 {
		n = DefaultLogLines
	}
	log, err := j.OpenLog(ctx, LogWindow{From: from, Lines: int64(n), MaxBytes: MaxLogPageBytes})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	data, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	return page(log.Info(), data), nil
}

// page says what data, read from a window as long as a page, is of the log.
func page(info LogInfo, data []byte) *LogLines {
	l := &LogLines{FirstLine: info.FirstLine, Offset: info.Offset, Lines: info.Lines, Complete: info.Complete}
	end := bytes.LastIndexByte(data, '\n') + 1
	atEnd := info.Offset+int64(len(data)) >= info.Bytes
	if rest := len(data) - end; rest > 0 {
		switch {
		case atEnd:
			l.Cut = !info.Complete
			end = len(data)
		case end == 0:
			l.Cut = true
			end = len(data)
		}
	}
	l.Data = data[:end]
	lines := int64(bytes.Count(l.Data, []byte{'\n'}))
	if end > 0 && l.Data[end-1] != '\n' {
		lines++
	}
	l.LastLine = l.FirstLine + lines - 1
	l.More = info.Offset+int64(end) < info.Bytes
	return l
}
