package drivertest

import (
	"io"
	"math/rand/v2"
	"sync/atomic"
)

// CutStream wraps the stream to a guest so that it is cut after some tens of kilobytes, up
// to a few megabytes, in either direction: a transport that breaks again and again.
func CutStream(rwc io.ReadWriteCloser) io.ReadWriteCloser {
	const least, most = 32 << 10, 4 << 20
	c := &cutStream{ReadWriteCloser: rwc}
	c.left.Store(least + rand.Int64N(most-least))
	return c
}

type cutStream struct {
	io.ReadWriteCloser
	left atomic.Int64 // bytes
}

// spend counts bytes that have passed.
func (c *cutStream) spend(n int) {
	if c.left.Add(-int64(n)) < 0 {
		c.Close()
	}
}

func (c *cutStream) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.spend(n)
	return n, err
}

func (c *cutStream) Write(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Write(p)
	c.spend(n)
	return n, err
}
