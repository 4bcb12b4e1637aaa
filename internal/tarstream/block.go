package tarstream

import (
	"bytes"
	"strconv"
	"strings"
)

// field is where something stands in a header.
type field struct{ at, size int }

// The fields of a header: those of ustar, and of GNU tar where they differ.
var (
	fieldName     = field{0, 100}
	fieldMode     = field{100, 8}
	fieldUID      = field{108, 8}
	fieldGID      = field{116, 8}
	fieldSize     = field{124, 12}
	fieldModTime  = field{136, 12}
	fieldChecksum = field{148, 8}
	fieldType     = field{156, 1}
	fieldLink     = field{157, 100}
	fieldMagic    = field{257, 8} // and version
	fieldUser     = field{265, 32}
	fieldGroup    = field{297, 32}
	fieldMajor    = field{329, 8}
	fieldMinor    = field{337, 8}
	fieldPrefix   = field{345, 155}
	fieldPad      = field{500, 12}

	fieldGNUAccess = field{345, 12}
	fieldGNUChange = field{357, 12}
	fieldGNURest   = field{369, 143} // of sparse and multi-volume archives
)

const (
	magicUSTAR = "ustar\x0000"
	magicGNU   = "ustar  \x00"
)

// The types that a header can say, beside those of pax and GNU tar for more header.
const (
	flagFile     = '0'
	flagOldFile  = 0
	flagHardlink = '1'
	flagSymlink  = '2'
	flagDir      = '5'
	flagPax      = 'x'
	flagGlobal   = 'g'
	flagLongName = 'L'
	flagLongLink = 'K'
)

// flagNames are the types that are refused.
var flagNames = map[byte]string{
	'3': "a character device", '4': "a block device", '6': "a FIFO", '7': "a contiguous file",
	'S': "a sparse file", 'D': "a directory of an incremental archive", 'M': "a part of a file", 'V': "a volume label",
}

// block is one header as it stands in an archive.
type block [blockBytes]byte

func (b *block) of(f field) []byte { return b[f.at : f.at+f.size] }

var zeroBlock block

// rawHeader is what one block says.
type rawHeader struct {
	flag       byte
	name, link string
	mode       int64
	size       int64
	modTime    int64
}

// parse reads a header; wrong says why it is none.
func (b *block) parse() (h rawHeader, wrong string) {
	if !b.checked() {
		return h, "a wrong checksum"
	}
	h.flag = b[fieldType.at]
	gnu := string(b.of(fieldMagic)) == magicGNU
	if !gnu && string(b.of(fieldMagic)) != magicUSTAR {
		return h, "neither a ustar header nor one of GNU tar"
	}
	ok := true
	text := func(f field) string {
		s, good := cString(b.of(f))
		ok = ok && good
		return s
	}
	number := func(f field) int64 {
		n, good := numeric(b.of(f))
		ok = ok && good
		return n
	}
	h.name, h.link = text(fieldName), text(fieldLink)
	h.mode, h.size, h.modTime = number(fieldMode), number(fieldSize), number(fieldModTime)
	// What is of no use here is looked at too: where it is broken, others would
	// refuse the archive or read it in another way.
	text(fieldUser)
	text(fieldGroup)
	number(fieldUID)
	number(fieldGID)
	number(fieldMajor)
	number(fieldMinor)
	if gnu {
		number(fieldGNUAccess)
		number(fieldGNUChange)
		ok = ok && zeros(b.of(fieldGNURest))
	} else {
		if prefix := text(fieldPrefix); prefix != "" {
			h.name = prefix + "/" + h.name
		}
		ok = ok && zeros(b.of(fieldPad))
	}
	switch {
	case !ok:
		return h, "a field that is not what it should be"
	case h.size < 0 || h.mode < 0:
		return h, "a negative number"
	}
	return h, ""
}

// zeros reports whether there is nothing else in b.
func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// checked reports whether the checksum is that of the block.
func (b *block) checked() bool {
	stated, ok := octal(b.of(fieldChecksum))
	return ok && stated == b.checksum()
}

// checksum adds up the bytes of the block, with spaces in place of the sum.
func (b *block) checksum() int64 {
	sum := int64(fieldChecksum.size) * ' '
	for i, c := range b {
		if i < fieldChecksum.at || i >= fieldChecksum.at+fieldChecksum.size {
			sum += int64(c)
		}
	}
	return sum
}

// cString reads a text, after which a field holds only zeros.
func cString(b []byte) (string, bool) {
	text, rest, _ := bytes.Cut(b, []byte{0})
	return string(text), zeros(rest)
}

// numeric reads a number in octal digits, or in base 256 as GNU tar has it.
func numeric(b []byte) (int64, bool) {
	if b[0]&0x80 == 0 {
		return octal(b)
	}
	// The first bit is a mark, the second the sign; the number is a two's complement.
	var invert byte
	if b[0]&0x40 != 0 {
		invert = 0xff
	}
	var n uint64
	for i, c := range b {
		c ^= invert
		if i == 0 {
			c &= 0x7f
		}
		if n>>56 > 0 {
			return 0, false
		}
		n = n<<8 | uint64(c)
	}
	if n>>63 > 0 {
		return 0, false
	}
	if invert != 0 {
		return ^int64(n), true
	}
	return int64(n), true
}

// octal reads octal digits between spaces, and zeros at the end; none are 0.
func octal(b []byte) (int64, bool) {
	digits := strings.TrimLeft(strings.TrimRight(string(b), " \x00"), " ")
	if digits == "" {
		return 0, true
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '7' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(digits, 8, 64)
	return n, err == nil
}
