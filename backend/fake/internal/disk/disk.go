// Package disk is how much the fake's places may still write.
package disk

import (
	"io"
	"sync"

	"github.com/berth-dev/berth/spec"
)

// Disk is what may still be written. The zero value takes everything. It is safe for
// concurrent use.
type Disk struct {
	mu      sync.Mutex
	free    int64
	limited bool
}

// Set leaves n bytes free; negative: no limit.
func (d *Disk) Set(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free, d.limited = n, n >= 0
}

// Take uses n bytes up, or none: CodeNoSpace.
func (d *Disk) Take(n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.limited {
		return nil
	}
	if int64(n) > d.free {
		return spec.New(spec.CodeNoSpace, "the disk is full")
	}
	d.free -= int64(n)
	return nil
}

// Bill counts what several sources have used.
type Bill struct {
	disk *Disk
	used int64 // guarded by the disk's lock
}

// Bill returns an empty one.
func (d *Disk) Bill() *Bill { return &Bill{disk: d} }

// Charge returns src with its bytes on the bill: a Read that finds no space for what it
// has read is CodeNoSpace. A nil one, which has none, stays nil.
func (b *Bill) Charge(src io.Reader) io.Reader {
	if src == nil {
		return nil
	}
	return &charged{src, b}
}

// Refund gives back what was used.
func (b *Bill) Refund() {
	b.disk.mu.Lock()
	defer b.disk.mu.Unlock()
	b.disk.free += b.used
	b.used = 0
}

type charged struct {
	src  io.Reader
	bill *Bill
}

func (c *charged) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if full := c.bill.disk.Take(n); full != nil {
		return 0, full
	}
	c.bill.disk.mu.Lock()
	defer c.bill.disk.mu.Unlock()
	c.bill.used += int64(n)
	return n, err
}
