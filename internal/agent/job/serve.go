//go:build linux

package job

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/internal/agent/stream"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Server answers what hosts ask about jobs. Its methods are safe for concurrent use.
type Server struct {
	Registry *Registry
	Buffers  *stream.Buffers
	// Start starts the command of a fresh job for a client, with its output to the job.
	// It calls Started, or Failed with its error.
	Start func(req *wire.ExecRequest, j *Job, client string) error
}

// Host is the connection that a request came on.
type Host struct {
	Chunk   int          // the largest data frame that it wants
	Allowed func() error // whether its owner has not been taken over from
	Client  string       // the name of its session
}

var errRange = spec.New(spec.CodeInvalid, "the request is out of range")

// Serves reports whether an operation is one on jobs.
func Serves(op wire.Op) bool { return op == wire.OpJobEvents || operation(op) != nil }

func operation(op wire.Op) func(*Server, context.Context, *wire.Stream, *wire.Request, Host) error {
	switch op {
	case wire.OpJobStart:
		return (*Server).start
	case wire.OpJobList:
		return (*Server).list
	case wire.OpJobWait:
		return (*Server).wait
	case wire.OpJobKill:
		return (*Server).kill
	case wire.OpJobLog:
		return (*Server).sendLog
	case wire.OpJobHandOver:
		return (*Server).handOver
	}
	return nil
}

// Serve serves one request on its stream. An error that it returns has not been sent.
func (s *Server) Serve(st *wire.Stream, req *wire.Request, h Host) error {
	r := req.Job
	switch {
	case r == nil:
		return stream.ErrIncomplete
	case spec.ValidateOwner(r.Owner) != nil, spec.ValidateOwner(r.To) != nil, len(r.IDs) > wire.MaxJobIDs, len(r.Listener) > maxNameBytes:
		return errRange
	case req.Op == wire.OpJobEvents:
		return s.events(st, r, h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a host says nothing more: the end of its stream is its leaving
		stream.Discard(st)
		cancel()
		stream.Abort(st)
	}()
	return operation(req.Op)(s, ctx, st, req, h)
}

// start starts a job, or finds the one that the request or its key has started.
func (s *Server) start(_ context.Context, st *wire.Stream, req *wire.Request, h Host) error {
	if req.Exec == nil || req.Exec.ID == "" {
		return stream.ErrIncomplete
	}
	most := spec.MaxTimeout.Milliseconds()
	if len(req.Exec.ID) > maxNameBytes || len(req.Exec.Key) > spec.MaxKeyBytes || req.Job.StallMS < 0 || req.Job.StallMS > most {
		return errRange
	}
	o := spec.JobOptions{Owner: req.Job.Owner, StallAfter: millis(req.Job.StallMS), MaxLogBytes: req.Job.MaxLogBytes}
	o.Terminal = req.Exec.Terminal
	if err := o.Validate(); err != nil {
		return err
	}
	if o.MaxLogBytes == 0 {
		o.MaxLogBytes = spec.DefaultMaxLogBytes
	}
	args := make([]string, len(req.Exec.Args))
	for i, a := range req.Exec.Args {
		args[i] = string(a)
	}
	j, fresh, err := s.Registry.Claim(Request{
		ID: req.Exec.ID, Owner: o.Owner, Key: req.Exec.Key, Args: args, Dir: string(req.Exec.Dir), Terminal: req.Exec.Terminal != nil,
		StallAfter: o.StallAfter, MaxLogBytes: o.MaxLogBytes,
	})
	if fresh {
		err = s.Start(req.Exec, j, h.Client)
	}
	if err != nil {
		return err
	}
	info := j.Info()
	return stream.Reply(st, &wire.Reply{Job: &info})
}

func (s *Server) list(_ context.Context, st *wire.Stream, req *wire.Request, _ Host) error {
	jobs, err := s.Registry.List(req.Job.Owner, req.Job.IDs)
	if err != nil {
		return err
	}
	return sendJobs(st, jobs)
}

func (s *Server) handOver(_ context.Context, st *wire.Stream, req *wire.Request, _ Host) error {
	jobs, err := s.Registry.HandOver(req.Job.Owner, req.Job.To, req.Job.IDs)
	if err != nil {
		return err
	}
	return sendJobs(st, jobs)
}

// batchBytes is about how much one reply of a list carries.
const batchBytes = 128 << 10

func sendJobs(st *wire.Stream, jobs []wire.Job) error {
	var batch []wire.Job
	size := 0
	for _, j := range jobs {
		if len(batch) == wire.JobBatch || size > batchBytes {
			if err := stream.Reply(st, &wire.Reply{Jobs: batch}); err != nil {
				return err
			}
			batch, size = batch[:0], 0
		}
		batch = append(batch, j)
		const fixed = 1 << 10 // numbers, names of fields, survivors
		size += fixed + 2*(len(j.Dir)+len(j.LogPath))
		for _, a := range j.Args {
			size += 4 + 2*len(a)
		}
		if j.Exit != nil {
			for _, path := range j.Exit.HostExecutable {
				size += 4 + 2*len(path)
			}
		}
	}
	return stream.Reply(st, &wire.Reply{Jobs: batch, Done: true})
}

func (s *Server) wait(ctx context.Context, st *wire.Stream, req *wire.Request, _ Host) error {
	j, err := s.find(req.Job)
	if err != nil {
		return err
	}
	return answerEnd(ctx, st, j)
}

// find returns the job that a request means, which one that goes on had found before.
func (s *Server) find(r *wire.JobRequest) (*Job, error) {
	if r.Resume {
		return s.Registry.FindAgain(r.Owner, r.ID)
	}
	return s.Registry.Find(r.Owner, r.ID)
}

// answerEnd describes a job once it has ended.
func answerEnd(ctx context.Context, st *wire.Stream, j *Job) error {
	select {
	case <-j.Done():
	case <-ctx.Done():
		return stream.ErrGone
	}
	info := j.Info()
	return stream.Reply(st, &wire.Reply{Job: &info})
}

func (s *Server) kill(ctx context.Context, st *wire.Stream, req *wire.Request, _ Host) error {
	if req.Job.GraceMS < 0 || req.Job.GraceMS > spec.MaxTimeout.Milliseconds() {
		return errRange
	}
	j, err := s.find(req.Job)
	if err != nil {
		return err
	}
	j.End(millis(req.Job.GraceMS))
	return answerEnd(ctx, st, j)
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// sendLog sends what the window shows, its bytes and their end. An error among the
// bytes takes the place of the end.
func (s *Server) sendLog(ctx context.Context, st *wire.Stream, req *wire.Request, h Host) error {
	var w spec.LogWindow
	if req.Job.Window != nil {
		w = spec.LogWindow(*req.Job.Window)
	}
	j, err := s.find(req.Job)
	if err != nil {
		return err
	}
	r, err := j.OpenLog(ctx, w)
	if err != nil {
		return err
	}
	defer r.Close()
	info := wire.LogInfo(r.Info())
	if err := stream.Reply(st, &wire.Reply{Log: &info}); err != nil {
		return err
	}
	for {
		if err := r.Wait(ctx); ctx.Err() != nil { // without a buffer: it may be long
			return stream.ErrGone
		} else if err != nil {
			return err
		}
		buf := s.Buffers.Get()
		n, err := r.Read(ctx, buf[:])
		_, werr := wire.WriteData(st, buf[:n], h.Chunk)
		s.Buffers.Put(buf)
		switch {
		case werr != nil || ctx.Err() != nil:
			return stream.ErrGone
		case err == io.EOF:
			if wire.WriteEnd(st) != nil {
				return stream.ErrGone
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// maxAckBytes bounds one acknowledgement.
const maxAckBytes = 1 << 10

// events tells a listener of events until it leaves or another one takes over.
func (s *Server) events(st *wire.Stream, r *wire.JobRequest, h Host) error {
	l, err := s.Registry.Listen(r.Owner, r.Listener, r.Resume)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := stream.Reply(st, &wire.Reply{}); err != nil {
		return err
	}
	left := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.tell(st, l, left)
	}()
	defer func() {
		close(left)
		stream.Abort(st)
		<-sent
	}()
	for {
		var ack wire.JobAck
		if wire.ReadMessage(st, &ack, maxAckBytes) != nil {
			return stream.ErrGone
		}
		if err := h.Allowed(); err != nil {
			_ = wire.WriteMessage(st, &wire.JobEvent{Err: wire.FromError(err)})
			return stream.ErrGone
		}
		l.Acknowledge(ack.Seq)
	}
}

// tell sends events until left is closed, and why there are no more.
func (s *Server) tell(st *wire.Stream, l *Listener, left <-chan struct{}) {
	for {
		e, err := l.Next(left)
		switch {
		case err != nil:
			_ = wire.WriteMessage(st, &wire.JobEvent{Err: wire.FromError(err)})
			return
		case e == nil || wire.WriteMessage(st, e) != nil:
			return
		}
	}
}

// Keep returns a fresh job for the kept output of a command.
func (s *Server) Keep(req *wire.ExecRequest) (*Job, error) {
	args := make([]string, len(req.Args))
	for i, a := range req.Args {
		args[i] = string(a)
	}
	j, fresh, err := s.Registry.Claim(Request{ID: req.ID, Args: args, Dir: string(req.Dir), MaxLogBytes: spec.DefaultMaxLogBytes, Kept: true})
	if err == nil && !fresh {
		err = errors.New("the request has been served before") // its id is random
	}
	return j, err
}
