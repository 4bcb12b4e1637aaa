package vt

// control is a control sequence, CSI, with what its parts mean.
type control struct {
	kind    string // the private prefix, the intermediate bytes and the last one
	numbers []int  // its parameters, at least one
	empty   bool   // it has none
	strange bool   // it holds what no such sequence does
}

// parseControl reads a whole control sequence.
func parseControl(seq []byte) control {
	var c control
	body, last := seq[2:len(seq)-1], seq[len(seq)-1]
	kind := make([]byte, 0, 4)
	if len(body) > 0 && body[0] >= '<' && body[0] <= '?' {
		kind, body = append(kind, body[0]), body[1:]
	}
	end := 0
	for end < len(body) && body[end] >= '0' && body[end] <= ';' {
		end++
	}
	c.numbers, c.empty = numbers(body[:end]), end == 0
	for _, b := range body[end:] {
		c.strange = c.strange || b < 0x20 || b > 0x2f
	}
	c.kind = string(append(append(kind, body[end:]...), last))
	return c
}

// at is a parameter; without it, or when it is left out, absent.
func (c control) at(i, absent int) int {
	if i >= len(c.numbers) || c.empty {
		return absent
	}
	return c.numbers[i]
}

// largest is what a number that is larger counts as.
const largest = 1<<16 - 1

// numbers are the parameters of a sequence.
func numbers(p []byte) []int {
	var out []int
	n := 0
	for _, c := range p {
		switch {
		case c >= '0' && c <= '9':
			n = min(10*n+int(c-'0'), largest)
		default:
			out, n = append(out, n), 0
		}
	}
	return append(out, n)
}

// command splits a string that is an operating system command into its number, -1 for none,
// and what comes after that.
func command(seq []byte) (number int, value []byte) {
	body := seq[min(2, len(seq)):]
	for number = -1; len(body) > 0 && body[0] >= '0' && body[0] <= '9'; body = body[1:] {
		number = min(10*max(number, 0)+int(body[0]-'0'), largest)
	}
	return number, body
}
