//go:build linux

package joblog

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// BlockBytes is how much of a log one entry of its index stands for.
const BlockBytes = 64 << 10

const entryBytes = 8

// index knows how many newlines a log has up to the end of each whole block.
type index struct {
	blocks   []int64 // newlines in all blocks up to this one
	newlines int64
	size     int64
	open     bool // the last byte is no newline
}

// add takes in the next bytes of the log.
func (x *index) add(p []byte) {
	if len(p) == 0 {
		return
	}
	x.open = p[len(p)-1] != '\n'
	for len(p) > 0 {
		part := p[:min(int64(len(p)), BlockBytes-x.size%BlockBytes)]
		x.newlines += int64(bytes.Count(part, newline))
		x.size += int64(len(part))
		if x.size%BlockBytes == 0 {
			x.blocks = append(x.blocks, x.newlines)
		}
		p = p[len(part):]
	}
}

var newline = []byte{'\n'}

// lines counts the lines; a last one without a newline counts.
func (x *index) lines() int64 {
	if x.open {
		return x.newlines + 1
	}
	return x.newlines
}

// before returns how many newlines stand before block b.
func (x *index) before(b int64) int64 {
	if b == 0 {
		return 0
	}
	return x.blocks[b-1]
}

// blockOf returns the block that holds the nth newline, from 1.
func (x *index) blockOf(n int64) int64 {
	return int64(sort.Search(len(x.blocks), func(b int) bool { return x.blocks[b] >= n }))
}

// encode appends the entries from block first on.
func (x *index) encode(first int) []byte {
	out := make([]byte, 0, entryBytes*(len(x.blocks)-first))
	for _, n := range x.blocks[first:] {
		out = binary.LittleEndian.AppendUint64(out, uint64(n))
	}
	return out
}

// decode takes entries from data for a log of size bytes, up to the first that cannot
// be true.
func decode(data []byte, size int64) []int64 {
	most := min(int64(len(data))/entryBytes, size/BlockBytes)
	blocks := make([]int64, 0, most)
	last := int64(0)
	for i := range most {
		n := int64(binary.LittleEndian.Uint64(data[i*entryBytes:]))
		if n < last || n > last+BlockBytes {
			break
		}
		blocks = append(blocks, n)
		last = n
	}
	return blocks
}

// nthNewline returns the position after the nth newline in p, or -1.
func nthNewline(p []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}
