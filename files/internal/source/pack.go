package source

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// packetBytes is about how much one packet holds, packets how many there are.
const (
	packetBytes = 256 << 10
	packets     = 3
	// maxParts bounds the empty files of a packet.
	maxParts = 1024
)

// Packet is what one goroutine has read from the sources of a batch, for another one
// to write: parts of files, many small ones together.
type Packet struct {
	Parts []Part
	Last  bool   // no packet follows
	Err   error  // why, unless all has come; of the last only
	Free  func() // gives the packet back; not of the last

	buf []byte
}

// Part is a piece of a file.
type Part struct {
	// File is set at the first piece; its Src is not.
	File *files.BatchFile
	Data []byte
	End  bool // it is the last piece
}

// Pack reads the files of a batch ahead from a goroutine, which makes sure of their
// names and sizes. It ends with the last packet, or with the Read that is under way at
// stop. Errors are as Copy's, with the name of the file as their Path.
func Pack(ctx context.Context, next iter.Seq2[files.BatchFile, error]) (<-chan Packet, func()) {
	p := &packer{ctx: ctx, full: make(chan Packet, packets), empty: make(chan Packet, packets), quit: make(chan struct{})}
	for range packets {
		p.empty <- Packet{buf: make([]byte, 0, packetBytes)}
	}
	go p.run(next)
	return p.full, func() { close(p.quit) }
}

type packer struct {
	ctx         context.Context
	full, empty chan Packet
	quit        chan struct{}
	now         Packet
	probe       [1]byte
}

func (p *packer) run(next iter.Seq2[files.BatchFile, error]) {
	if !p.fresh() {
		return
	}
	for f, err := range next {
		if err == nil {
			err = p.add(&f)
		} else {
			err = failed(p.ctx, err)
		}
		if err == errQuit { //nolint:errorlint // the bare sentinel
			return
		}
		if err != nil {
			p.now.Err = spec.Wrap(err, "", "", "", f.Name)
			break
		}
	}
	p.now.Last = true
	p.full <- p.now // never blocks: it has room for all packets
}

// errQuit says that nobody wants the rest.
var errQuit = spec.New(spec.CodeInternal, "the batch is over")

// fresh takes an empty packet; false: nobody wants it.
func (p *packer) fresh() bool {
	select {
	case <-p.quit:
		return false
	case p.now = <-p.empty:
		return true
	}
}

// flush hands the packet over and takes another one.
func (p *packer) flush() error {
	done := p.now
	done.Free = func() { p.empty <- Packet{buf: done.buf[:0], Parts: done.Parts[:0]} }
	p.full <- done
	if !p.fresh() {
		return errQuit
	}
	return nil
}

// add reads one file.
func (p *packer) add(f *files.BatchFile) error {
	if err := spec.ValidatePath(f.Name); err != nil {
		return err
	}
	switch {
	case f.Size < 0:
		return spec.New(spec.CodeInvalid, "a negative size")
	case f.Src == nil && f.Size > 0:
		return spec.New(spec.CodeInvalid, "no source")
	}
	file := &files.BatchFile{Name: f.Name, Mode: f.Mode, Size: f.Size}
	for left := f.Size; ; {
		if len(p.now.buf) == cap(p.now.buf) || len(p.now.Parts) == maxParts {
			if err := p.flush(); err != nil {
				return err
			}
		}
		at := len(p.now.buf)
		want := p.now.buf[at:min(int64(cap(p.now.buf)), int64(at)+left)]
		for len(want) > 0 {
			n, err := readSome(f.Src, want)
			p.now.buf, want, left = p.now.buf[:len(p.now.buf)+n], want[n:], left-int64(n)
			if err == io.EOF && left > 0 {
				return spec.New(spec.CodeInvalid, fmt.Sprintf("the source ends after %d of the %d bytes announced", f.Size-left, f.Size))
			}
			if err != nil && err != io.EOF {
				return failed(p.ctx, err)
			}
		}
		p.now.Parts = append(p.now.Parts, Part{File: file, Data: p.now.buf[at:], End: left == 0})
		file = nil
		if left == 0 {
			return p.ended(f)
		}
	}
}

// ended makes sure that a source has no more than was announced.
func (p *packer) ended(f *files.BatchFile) error {
	n, err := 0, error(io.EOF)
	if f.Src != nil {
		n, err = readSome(f.Src, p.probe[:])
	}
	switch {
	case n > 0:
		return spec.New(spec.CodeInvalid, fmt.Sprintf("the source delivers more than the %d bytes announced", f.Size))
	case err != io.EOF:
		return failed(p.ctx, err)
	}
	return nil
}
