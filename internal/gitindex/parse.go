package gitindex

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	headerBytes = 12
	statBytes   = 40 // of an entry, before its hash

	extended      = 0x4000 // in an entry's flags: more flags follow
	knownExtended = 0x6000 // of these: git refuses others
	lengthMask    = 0x0fff // in an entry's flags: the length of the name, if it is less

	typeMask  = 0o170000
	gitlink   = 0o160000
	directory = 0o040000

	// maxName is as long as no path can be that git can write.
	maxName = 4096
)

// parser reads an index as git does, which trusts the lengths in it.
type parser struct {
	body    []byte // without the checksum at its end
	hash    int    // bytes of one
	version uint32
	ends    []int   // where the entries end, if the index says so
	starts  []start // of all entries, if it does
	name    []byte  // of the last entry
	all     Index
	unnamed bool // there is an entry without a name
	shared  bool
}

// start is where an entry begins, and whether it needs the name before it.
type start struct {
	at     int
	follow bool
}

// parse reads an index whose hashes have a size. It reports whether the file is one: all
// entries are there, and after them nothing but extensions and the checksum, which is not
// looked at since git can do without.
func parse(data []byte, hash int) (Index, bool) {
	if len(data) < headerBytes+hash || string(data[:4]) != "DIRC" {
		return Index{}, false
	}
	p := &parser{body: data[:len(data)-hash], hash: hash, version: binary.BigEndian.Uint32(data[4:])}
	if p.version < 2 || p.version > 4 {
		return Index{}, false
	}
	p.findEnds()
	count := binary.BigEndian.Uint32(data[8:])
	at, ok := headerBytes, true
	for range count {
		if at, ok = p.entry(at); !ok {
			return Index{}, false
		}
	}
	if slices.ContainsFunc(p.ends, func(end int) bool { return end != at }) || !p.extensions(at) || p.unnamed && !p.shared {
		return Index{}, false
	}
	if p.shared {
		p.all.Unread = shared
	}
	return p.all, true
}

// entry takes the entry at a place and returns where the next one is.
func (p *parser) entry(at int) (int, bool) {
	n := at + statBytes + p.hash + 2 // to the name
	if len(p.body) < n {
		return 0, false
	}
	mode := binary.BigEndian.Uint32(p.body[at+24:])
	flags := binary.BigEndian.Uint16(p.body[n-2:])
	if flags&extended != 0 {
		if n += 2; len(p.body) < n || binary.BigEndian.Uint16(p.body[n-2:])&^knownExtended != 0 {
			return 0, false
		}
	}
	kept := 0 // of the name before
	if p.version == 4 {
		strip, size := varint(p.body[n:])
		if n += size; size == 0 || strip > len(p.name) {
			return 0, false
		}
		kept = len(p.name) - strip
	}
	length := int(flags & lengthMask)
	if length == lengthMask {
		length = kept + bytes.IndexByte(p.body[n:], 0) // without an end it is less than kept
	}
	end := n + length - kept
	if length < kept || length > maxName || end >= len(p.body) || p.body[end] != 0 || bytes.IndexByte(p.body[n:end], 0) >= 0 {
		return 0, false
	}
	p.name = append(p.name[:kept], p.body[n:end]...)
	if p.ends != nil {
		p.starts = append(p.starts, start{at, kept > 0})
	}
	p.take(mode, kept)
	if p.version == 4 {
		return end + 1, true
	}
	next := at + (end-at+8)&^7
	return next, next <= len(p.body)
}

// varint reads a number as git writes it in packs; its size is 0 if there is none, or one
// that is longer than any name.
func varint(b []byte) (value, size int) {
	for i, c := range b {
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
		if value++; value > maxName {
			break
		}
	}
	return 0, 0
}

// take notes what is of interest in the last entry. So many bytes of its name are those of
// the name before it.
func (p *parser) take(mode uint32, kept int) {
	name := p.name
	switch {
	case len(name) == 0:
		p.unnamed = true // it replaces one of a shared index
		return
	case mode == directory: // what a sparse index has for all that is in it
		name = bytes.TrimSuffix(name, []byte("/"))
	}
	known := p.all.Astray == "" // kept is of a name that is not astray
	if known && astray(name, kept) {
		p.all.Astray = string(p.name)
		return
	}
	if mode&typeMask == gitlink && (known || len(p.all.Links) == MaxLinks || !astray(name, 0)) {
		p.all.addLink(string(name))
	}
}

// astray reports whether a name has a component that no file of a work tree has. The first
// kept bytes are those of a name that has none.
func astray(name []byte, kept int) bool {
	kept = min(kept, len(name))
	from := max(0, kept-8) // a component that begins before is too long to be one
	from += bytes.LastIndexByte(name[from:kept], '/') + 1
	for rest, more := name[from:], true; more; {
		var part []byte
		part, rest, more = bytes.Cut(rest, []byte{'/'})
		switch len(part) {
		case 0:
			return true
		case 1, 2:
			if part[0] == '.' && part[len(part)-1] == '.' {
				return true
			}
		case 4:
			if part[0] == '.' && bytes.EqualFold(part, []byte(".git")) {
				return true
			}
		}
	}
	return false
}

// findEnds notes where the index says that its entries end: git believes that when it reads
// with several threads. It looks from the end of the file, whatever is there, and some
// versions of it do so with hashes of 20 bytes always.
func (p *parser) findEnds() {
	for _, hash := range []int{20, p.hash} {
		if eoie := len(p.body) - hash - 12; eoie >= headerBytes && string(p.body[eoie:eoie+4]) == "EOIE" {
			p.ends = append(p.ends, int(binary.BigEndian.Uint32(p.body[eoie+8:])))
		}
	}
}

// extensions goes through what follows the entries, and reports whether nothing else does.
func (p *parser) extensions(at int) bool {
	for rest := p.body[at:]; len(rest) > 0; {
		if len(rest) < 8 {
			return false
		}
		name, size := string(rest[:4]), int64(binary.BigEndian.Uint32(rest[4:]))
		rest = rest[8:]
		if size > int64(len(rest)) {
			return false
		}
		switch name {
		case "link":
			p.shared = true
		case "IEOT":
			if p.ends != nil && !p.blocks(rest[:size]) {
				return false
			}
		}
		rest = rest[size:]
	}
	return true
}

// blocks reports whether a table of blocks of entries, from which git reads with several
// threads, leads to the entries that are there, all and in order.
func (p *parser) blocks(table []byte) bool {
	if len(table)%8 != 4 || binary.BigEndian.Uint32(table) != 1 {
		return false
	}
	entries := p.starts
	for table = table[4:]; len(table) > 0; table = table[8:] {
		at, count := binary.BigEndian.Uint32(table), int64(binary.BigEndian.Uint32(table[4:]))
		if count == 0 || count > int64(len(entries)) || entries[0] != (start{int(at), false}) {
			return false
		}
		entries = entries[count:]
	}
	return len(entries) == 0
}
