package berth

import (
	"errors"
	"io"
	"io/fs"
	"sync"
)

// StdinPipe returns a writer that is the command's standard input. Close ends that
// input; it is closed anyway once the command has ended, and a Write then returns
// io.ErrClosedPipe.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil {
		return nil, c.misuse("Stdin already set")
	}
	if c.used.Load() {
		return nil, c.misuse("StdinPipe after the command was started")
	}
	r, w := io.Pipe()
	c.Stdin, c.stdin = r, r
	return w, nil
}

// StdoutPipe returns a reader of the command's standard output. It may be read
// before, during and after Wait, and nothing is lost: but 64 KiB that nobody reads
// hold the command up, and with it Wait. Of a command whose place was lost it ends
// in the error and never looks whole. Closing it ends the copying.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stdout", &c.Stdout)
}

// StderrPipe is StdoutPipe for standard error output.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stderr", &c.Stderr)
}

func (c *Cmd) outputPipe(name string, field *io.Writer) (io.ReadCloser, error) {
	if *field != nil {
		return nil, c.misuse(name + " already set")
	}
	if c.used.Load() {
		return nil, c.misuse(name + "Pipe after the command was started")
	}
	p := newPipe()
	*field = p
	c.pipes = append(c.pipes, p)
	return pipeReader{p}, nil
}

// closePipes ends the pipes of a command that has ended, or did not start.
func (c *Cmd) closePipes(err error) {
	if c.stdin != nil {
		c.stdin.Close()
	}
	for _, p := range c.pipes {
		p.finish(err)
	}
}

// pipe is what a kernel's pipe is: a bounded buffer between one writer and one
// reader.
type pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	ring    []byte // allocated at the first write
	start   int    // of the oldest byte
	n       int    // bytes held
	ended   bool   // nothing more comes
	err     error  // why, if the end is not a proper one
	closed  bool   // by the reader
}

const pipeBytes = 64 << 10

func newPipe() *pipe {
	p := &pipe{}
	p.changed.L = &p.mu
	return p
}

// errReaderClosed ends the copying to a pipe whose reader has closed it.
var errReaderClosed = errors.New("the reader closed the pipe")

// Write blocks while the pipe is full.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ring == nil {
		p.ring = make([]byte, pipeBytes)
	}
	done := 0
	for done < len(b) {
		for p.n == len(p.ring) && !p.closed && !p.ended {
			p.changed.Wait()
		}
		if p.closed || p.ended {
			return done, errReaderClosed
		}
		end := (p.start + p.n) % len(p.ring)
		room := min(len(p.ring)-p.n, len(p.ring)-end)
		k := copy(p.ring[end:end+room], b[done:])
		p.n += k
		done += k
		p.changed.Broadcast()
	}
	return done, nil
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.n == 0 && !p.ended && !p.closed && len(b) > 0 {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return 0, fs.ErrClosed
	case len(b) == 0:
		return 0, nil
	case p.n == 0 && p.err != nil:
		return 0, p.err
	case p.n == 0:
		return 0, io.EOF
	}
	k := copy(b, p.ring[p.start:min(p.start+p.n, len(p.ring))])
	p.start = (p.start + k) % len(p.ring)
	p.n -= k
	p.changed.Broadcast()
	return k, nil
}

// finish says that nothing more comes, because of err if that is not nil.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended, p.err = true, err
	}
	p.changed.Broadcast()
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.ring, p.n = true, nil, 0
	p.changed.Broadcast()
}

// pipeReader is the end of a pipe that its user holds.
type pipeReader struct{ p *pipe }

func (r pipeReader) Read(b []byte) (int, error) { return r.p.read(b) }

func (r pipeReader) Close() error {
	r.p.close()
	return nil
}
