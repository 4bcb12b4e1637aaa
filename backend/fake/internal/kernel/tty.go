package kernel

import (
	"bytes"
	"io"
	"sync"

	"github.com/berth-dev/berth/backend/fake/internal/line"
	"github.com/berth-dev/berth/spec"
)

// TTYName is the file that is every process's own terminal.
const TTYName = "/dev/tty"

// TTY is the terminal of one session: what is typed into it becomes the input of the
// session's processes, and its echo, with what these write, the output. It is safe for
// concurrent use.
type TTY struct {
	out *Pipe

	k      *Kernel // once a process has been started with it
	leader int     // that process, and its group

	mu    sync.Mutex
	size  spec.TerminalSize
	input *line.Discipline
	gone  bool // it was hung up
	bell
}

// NewTTY returns a terminal of a size, for Attr.TTY.
func NewTTY(size spec.TerminalSize) *TTY {
	out, _, _ := NewPipe()
	return &TTY{out: out, size: size, input: line.New()}
}

// begin makes the terminal that of a session.
func (t *TTY) begin(k *Kernel, leader int) { t.k, t.leader = k, leader }

// Output is what is to be shown. It has no end of its own.
func (t *TTY) Output() *Pipe { return t.out }

// Mode is what the terminal does now.
func (t *TTY) Mode() line.Mode {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.input.Mode()
}

// SetMode says what it does from now on.
func (t *TTY) SetMode(m line.Mode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.input.SetMode(m)
	t.notify()
}

// Size is the size that programs find.
func (t *TTY) Size() spec.TerminalSize {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
}

// Resize sets the size, and has the session's group told of it.
func (t *TTY) Resize(size spec.TerminalSize) {
	t.mu.Lock()
	t.size = size
	t.mu.Unlock()
	t.signal(sigWINCH)
}

// signal sends sig to the session's own group.
func (t *TTY) signal(sig int) {
	_ = t.k.Kill(nil, -t.leader, sig) // a group that has gone is no error
}

// HangUp ends the terminal: its input is at its end, and writing to it fails.
func (t *TTY) HangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	t.notify()
}

// hangUpLocked tells the group of a session whose leader p has ended that its terminal
// is gone.
func (k *Kernel) hangUpLocked(p *Proc) {
	for _, other := range k.procs {
		if other != p && other.pgid == p.pgid {
			k.signalLocked(other, int(spec.SIGHUP))
			k.signalLocked(other, int(spec.SIGCONT))
		}
	}
}

// Type types b, and returns how much of it: all, or what there was room for when until was
// closed, which is EINTR. What is typed after the end is dropped.
func (t *TTY) Type(b []byte, until Until) (int, error) {
	for n := 0; n < len(b); {
		sig, room := t.key(b[n])
		if room != nil {
			if err := until.pause(room); err != nil {
				return n, err
			}
			continue
		}
		n++
		if sig != 0 {
			t.signal(int(sig))
		}
	}
	return len(b), nil
}

// key types one byte, and returns the signal that it means. room is nil, or what to wait
// for before it is typed again.
func (t *TTY) key(c byte) (sig spec.Signal, room <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return 0, nil
	}
	sig, echo, taken := t.input.Key(c)
	if !taken {
		return 0, t.wait()
	}
	// While nothing more can be shown the echo is dropped: who types may be the one who is
	// to look.
	t.out.offer(echo)
	t.notify()
	return sig, nil
}

func (t *TTY) read(p *Proc, b []byte) (int, error) {
	for {
		t.mu.Lock()
		n, ok := t.input.Read(b)
		gone, typed := t.gone, t.wait()
		if ok {
			t.notify()
		}
		t.mu.Unlock()
		switch {
		case ok && n > 0 || len(b) == 0:
			return n, nil
		case ok || gone:
			return 0, io.EOF
		}
		if err := p.pause(typed); err != nil {
			return 0, err
		}
	}
}

func (t *TTY) write(p *Proc, b []byte) (int, error) {
	t.mu.Lock()
	gone, mode := t.gone, t.input.Mode()
	t.mu.Unlock()
	if gone {
		return 0, EIO
	}
	shown := b
	if mode&line.Newline != 0 {
		shown = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	if n, err := t.out.write(patient{p}, shown); err != nil {
		return min(n, len(b)), err
	}
	return len(b), nil
}

func (t *TTY) close()       {}
func (t *TTY) name() string { return TTYName }

// Terminal is the terminal that a descriptor leads to, or nil.
func (p *Proc) Terminal(fd int) *TTY {
	if f := p.file(fd); f != nil {
		t, _ := f.file.(*TTY)
		return t
	}
	return nil
}
