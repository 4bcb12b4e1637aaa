package wire

import "bytes"

// The most values that a message lists: in the arrays of its own fields, which hold
// records of some hundred bytes, and in all.
const (
	maxRecords = 1 << 10
	maxValues  = 1 << 16
)

// checkShape refuses a message that lists more than any message does. json makes room
// for an element before it looks at it, so that two bytes of text would cost as much
// memory as the largest record, before anybody can count.
func checkShape(payload []byte) error { return checkLists(payload, maxRecords, maxValues) }

func checkLists(payload []byte, mostRecords, mostValues int) error {
	depth, records, values := 0, 0, 0
	for i := 0; i < len(payload); i++ {
		switch payload[i] {
		case '"':
			i += stringEnd(payload[i+1:])
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			values++
			if depth == 2 {
				records++
			}
			if records > mostRecords || values > mostValues {
				return violation("a message that lists more than %d records, %d values", mostRecords, mostValues)
			}
		}
	}
	return nil
}

// stringEnd is how many bytes a string takes after its first quote.
func stringEnd(rest []byte) int {
	for at := 0; ; {
		k := bytes.IndexAny(rest[at:], "\"\\")
		switch {
		case k < 0:
			return len(rest)
		case rest[at+k] == '"':
			return at + k + 1
		}
		at = min(at+k+2, len(rest))
	}
}
