package buildkit

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errMalformed is the cause of every refusal of a message.
var errMalformed = errors.New("malformed protocol buffer")

// wireType says how the value of a field is written.
type wireType uint64

// The wire types. Groups, 3 and 4, are in none of these messages.
const (
	varint  wireType = 0
	fixed64 wireType = 1
	length  wireType = 2
	fixed32 wireType = 5
)

// maxField is the highest number that a field can have.
const maxField = 1<<29 - 1

// field is one field of a message.
type field struct {
	number uint64
	wire   wireType
	value  uint64 // of a varint
	data   []byte // of one with a length; it is part of the message
}

// fields hands each field of a message to take, in its order, up to the first error.
func fields(message []byte, take func(field) error) error {
	for len(message) > 0 {
		f, n, err := nextField(message)
		if err != nil {
			return err
		}
		if err := take(f); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// nextField reads the first field of a message and says how long it is.
func nextField(message []byte) (f field, n int, err error) {
	tag, n := binary.Uvarint(message)
	if n <= 0 || tag>>3 == 0 || tag>>3 > maxField {
		return f, 0, fmt.Errorf("%w: a field without a number", errMalformed)
	}
	f = field{number: tag >> 3, wire: wireType(tag & 7)}
	rest := message[n:]
	size := uint64(0) // of what is skipped
	switch f.wire {
	case varint:
		value, m := binary.Uvarint(rest)
		if m <= 0 {
			return f, 0, fmt.Errorf("%w: field %d has no end", errMalformed, f.number)
		}
		f.value = value
		return f, n + m, nil
	case length:
		var m int
		if size, m = binary.Uvarint(rest); m <= 0 {
			return f, 0, fmt.Errorf("%w: field %d has no length", errMalformed, f.number)
		}
		n, rest = n+m, rest[m:]
	case fixed64:
		size = 8
	case fixed32:
		size = 4
	default:
		return f, 0, fmt.Errorf("%w: field %d has type %d", errMalformed, f.number, f.wire)
	}
	if size > uint64(len(rest)) {
		return f, 0, fmt.Errorf("%w: field %d is cut short", errMalformed, f.number)
	}
	if f.wire == length {
		f.data = rest[:size]
	}
	return f, n + int(size), nil
}

// expect refuses a field that is written in another way than it should be.
func (f field) expect(w wireType) error {
	if f.wire != w {
		return fmt.Errorf("%w: field %d has type %d, not %d", errMalformed, f.number, f.wire, w)
	}
	return nil
}

// text takes a field that is text.
func (f field) text(to *string) error {
	*to = string(f.data)
	return f.expect(length)
}

// appendText adds a field that is text to a message, unless it is empty.
func appendText(message []byte, number uint64, text string) []byte {
	if text == "" {
		return message
	}
	message = binary.AppendUvarint(message, number<<3|uint64(length))
	message = binary.AppendUvarint(message, uint64(len(text)))
	return append(message, text...)
}
