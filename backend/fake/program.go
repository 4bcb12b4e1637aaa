package fake

import (
	"context"
	"io"

	"github.com/berth-dev/berth/backend/fake/internal/environ"
	"github.com/berth-dev/berth/backend/fake/internal/kernel"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Program is a command written in Go. It returns its exit status, 0 to 255. ctx ends
// when the process is killed or dies of a signal; what the program does and returns
// after that reaches nobody, and it is to return soon.
type Program func(ctx context.Context, c *Invocation) int

// Invocation is what a Program is given.
type Invocation struct {
	Args   []string
	Env    map[string]string
	Dir    string // absolute
	Stdin  io.Reader
	Stdout io.Writer // may be used by one goroutine at a time, as Stderr
	Stderr io.Writer
	// Files are the files of the place; relative names begin in the place's
	// workdir, not in Dir.
	Files files.FS
	PID   int

	proc *kernel.Proc
}

// Notify takes signals: they do not end the process from now on and come through the
// channel, which drops what nobody receives in time. KILL and STOP cannot be taken.
func (c *Invocation) Notify(sigs ...spec.Signal) <-chan spec.Signal {
	const pending = 64
	ch := make(chan spec.Signal, pending)
	numbers := make([]int, len(sigs))
	for i, s := range sigs {
		numbers[i] = int(s)
	}
	c.proc.Notify(numbers, func(sig int) {
		select {
		case ch <- spec.Signal(sig):
		default:
		}
	})
	return ch
}

// program makes a Program one of the kernel.
func program(p *place, run Program) kernel.Main {
	return func(proc *kernel.Proc) int {
		ctx, cancel := proc.Context()
		defer cancel()
		return run(ctx, &Invocation{
			Args: proc.Args(), Env: environ.Map(proc.Env()), Dir: proc.Dir(), PID: proc.PID,
			Stdin: proc.FD(0), Stdout: proc.FD(1), Stderr: proc.FD(2), Files: p.fs, proc: proc,
		})
	}
}
