package filescmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync/atomic"
)

// input is our standard input. A Read ends with the context, though nothing ends the
// one of the system's below it.
type input struct {
	ctx context.Context // of the verb
	r   io.Reader
	got chan struct{}
	buf []byte
	n   int
	err error
}

func (i *input) Read(p []byte) (int, error) {
	if i.got == nil {
		i.buf = make([]byte, max(len(p), 64<<10))
		i.got = make(chan struct{}, 1)
	}
	if i.n == 0 && i.err == nil {
		go func() {
			i.n, i.err = i.r.Read(i.buf)
			i.got <- struct{}{}
		}()
		select {
		case <-i.got:
		case <-i.ctx.Done():
			return 0, context.Cause(i.ctx)
		}
	}
	n := copy(p, i.buf[:i.n])
	i.n = copy(i.buf, i.buf[n:i.n])
	if i.n == 0 {
		return n, i.err
	}
	return n, nil
}

// counted counts what is read, and takes its SHA-256 if it has a hash.
type counted struct {
	r    io.Reader
	n    *atomic.Int64
	hash hash.Hash
}

func newHash() hash.Hash { return sha256.New() }

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	return n, err
}

func (c *counted) sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }
