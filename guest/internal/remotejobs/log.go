package remotejobs

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// OpenLog opens a window of a job's log. The Log goes on over a redial at the byte that it
// has reached. Close may be called while Read waits, which then returns.
func (c *Client) OpenLog(ctx context.Context, owner, id string, w spec.LogWindow) (driver.Log, error) {
	if err := checkJobs(owner, id); err != nil {
		return nil, err
	}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	asked := wire.LogWindow(w)
	l := &jobLog{s: c.s, caller: ctx, window: w, req: &wire.Request{
		Op: wire.OpJobLog, Job: &wire.JobRequest{Owner: owner, ID: id, Window: &asked},
	}}
	l.ctx, l.cancel = context.WithCancel(ctx)
	if err := l.open(); err != nil {
		l.cancel()
		return nil, err
	}
	return l, nil
}

// jobLog is an open window of a log. It checks that it gets what its Info promises.
type jobLog struct {
	s      ask.Session
	caller context.Context // OpenLog's, which bounds the log's life
	ctx    context.Context // ends with it, or with Close
	cancel context.CancelFunc
	req    *wire.Request
	window spec.LogWindow
	info   spec.LogInfo

	st    ask.Stream // nil: its connection broke
	data  *wire.DataReader
	read  int64 // bytes
	lines int64 // newlines among them
	most  int64 // the most that can come; negative: no limit
	err   error

	barren   int   // how often it was opened since a byte came
	readThen int64 // what had been read the last time
}

var errLogClosed = spec.New(spec.CodeInvalid, "the log was closed")

// open asks for the window, or for what is left of it.
func (l *jobLog) open() error {
	err := l.s.Patiently(l.ctx, l.req, ask.Reads, func(st ask.Stream) (bool, error) {
		reply, err := wire.ReadReply(st)
		if err != nil {
			st.End()
			return false, err
		}
		// In a goroutine of its own, whoever is reading.
		context.AfterFunc(l.ctx, func() {
			st.Interrupt()
			st.End()
		})
		l.st, l.data = st, wire.NewDataReader(st)
		return true, l.begin(reply.Log)
	})
	if l.ctx.Err() != nil && l.caller.Err() == nil {
		return errLogClosed
	}
	return err
}

// begin takes what the guest says of the window.
func (l *jobLog) begin(said *wire.LogInfo) error {
	if said == nil {
		return ask.Violation("a log without its record")
	}
	info, err := said.Spec()
	if err != nil {
		return &spec.Error{Code: spec.CodeInternal, Err: err}
	}
	if l.info.FirstLine > 0 { // once more
		if info.Offset != l.info.Offset+l.read {
			return ask.Violation("a log goes on at %d instead of %d", info.Offset, l.info.Offset+l.read)
		}
		return nil
	}
	if w := l.window; w.Offset > 0 && info.Offset != min(w.Offset, info.Bytes) || w.Offset == 0 && info.FirstLine != firstLine(w.From, info.Lines) {
		return ask.Violation("a log begins at line %d, byte %d", info.FirstLine, info.Offset)
	}
	l.info, l.most = info, -1
	if !l.window.Follow {
		l.most = info.Bytes - info.Offset
	}
	if w := l.window.MaxBytes; w > 0 && (l.most < 0 || l.most > w) {
		l.most = w
	}
	return nil
}

// firstLine is the line in which a window begins, of a log that has so many.
func firstLine(from, lines int64) int64 {
	if from < 0 {
		return max(lines+1+from, 1)
	}
	return min(max(from, 1), lines+1)
}

// Info implements driver.Log.
func (l *jobLog) Info() spec.LogInfo { return l.info }

func (l *jobLog) Read(p []byte) (int, error) {
	for l.err == nil {
		if l.st == nil {
			if l.err = l.again(); l.err != nil {
				break
			}
		}
		n, err := l.data.Read(p)
		if n > 0 || err == nil {
			return n, l.take(p[:n])
		}
		l.err = l.ended(err)
	}
	return 0, l.err
}

// The most times that the log is opened in a row without a byte of it, and the pauses
// before: somewhat more than the least time for which a place may be out of reach.
const (
	maxBarren  = 12
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// again opens the log at the byte that it has reached.
func (l *jobLog) again() error {
	if l.read > l.readThen {
		l.barren = 0
	}
	if l.barren == maxBarren {
		return spec.New(spec.CodeUnavailable, "the connection breaks whenever the log is opened")
	}
	if l.barren > 0 {
		select {
		case <-time.After(min(firstPause<<l.barren, maxPause)):
		case <-l.ctx.Done(): // open says so
		}
	}
	l.readThen = l.read
	l.barren++
	return l.open()
}

// take counts what has come.
func (l *jobLog) take(p []byte) error {
	n, lines := int64(len(p)), int64(bytes.Count(p, []byte{'\n'}))
	over := l.most >= 0 && l.read+n > l.most
	if most := l.window.Lines; most > 0 && n > 0 {
		left := most - l.lines
		over = over || left < lines || left == 0 || left == lines && p[n-1] != '\n'
	}
	if over {
		l.err = ask.Violation("more of the log than was asked for")
		return l.err
	}
	l.read += n
	l.lines += lines
	return nil
}

// ended says what the end of the present stream means: nil for one that is to be
// followed by another.
func (l *jobLog) ended(err error) error {
	switch {
	case err == io.EOF && l.read < l.most && !l.window.Follow && (l.window.Lines == 0 || l.lines < l.window.Lines):
		return spec.New(spec.CodeUnavailable, "the log was cut while it was read")
	case err == io.EOF:
		return io.EOF
	case l.caller.Err() != nil:
		return l.caller.Err()
	case l.ctx.Err() != nil:
		return errLogClosed
	}
	if lost, cause := l.st.Broke(err); !lost {
		return cause
	}
	l.st.End()
	l.st = nil
	w := wire.LogWindow{Offset: l.info.Offset + l.read, Follow: l.window.Follow}
	if w.Offset == 0 {
		w.From = 1
	}
	if l.window.Lines > 0 {
		if w.Lines = l.window.Lines - l.lines; w.Lines <= 0 {
			return io.EOF
		}
	}
	if l.most >= 0 {
		if w.MaxBytes = l.most - l.read; w.MaxBytes == 0 {
			return io.EOF
		}
	}
	l.req.Job.Window, l.req.Job.Resume = &w, true
	return nil
}

// Close implements driver.Log.
func (l *jobLog) Close() error {
	l.cancel() // which ends the stream
	return nil
}
