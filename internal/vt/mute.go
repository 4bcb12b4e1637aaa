package vt

import "bytes"

// Mute takes the questions out of old output: a terminal that is shown them again would
// answer, and the answers would be typed. The zero value is ready.
type Mute struct {
	parser Parser
	held   []byte // of the sequence that has begun
}

// maxHeld is how long a sequence is held back; one that is longer asks nothing.
const maxHeld = 4 << 10

// Filter appends what of p is to be shown to out.
func (m *Mute) Filter(out, p []byte) []byte {
	for _, c := range p {
		before := m.parser.state
		m.parser.Next(c)
		switch {
		case m.parser.state == ground && before == ground:
			if c != 0x05 { // ENQ
				out = append(out, c)
			}
		case m.parser.state == ground:
			if m.held = append(m.held, c); !asks(m.held) {
				out = append(out, m.held...)
			}
			m.held = m.held[:0]
		case len(m.held) >= maxHeld:
			out = append(append(out, m.held...), c)
			m.held = m.held[:0]
		default:
			m.held = append(m.held, c)
		}
	}
	return out
}

// Rest returns what is held back, of a sequence that is not whole yet.
func (m *Mute) Rest() []byte {
	held := m.held
	m.held = nil
	return held
}

// asks reports whether a sequence is a question.
func asks(seq []byte) bool {
	if i := bytes.LastIndexByte(seq, esc); i > 0 && i < len(seq)-2 || i < 0 {
		seq = seq[max(i, 0):] // one that was broken off stands before it
	}
	if len(seq) < 2 {
		return false
	}
	body, last := seq[2:], seq[len(seq)-1]
	switch seq[1] {
	case 'Z': // what are you
		return true
	case ']':
		return bytes.Contains(body, []byte(";?"))
	case 'P':
		return bytes.HasPrefix(body, []byte("$q")) || bytes.HasPrefix(body, []byte("+q"))
	case '[':
		if len(body) == 0 {
			return false
		}
		switch last {
		case 'c', 'x':
			return true
		case 'n':
			return body[0] != '>' // that is a setting of modifiers
		case 'p':
			return bytes.HasSuffix(body, []byte("$p"))
		case 'u':
			return body[0] == '?'
		case 'q':
			return body[0] == '>'
		case 'S':
			return body[0] == '?'
		case 't': // reports about the window
			return len(body) >= 3 && (body[0] == '1' || body[0] == '2') && body[1] >= '0' && body[1] <= '9' && string(body[:2]) < "22"
		}
	}
	return false
}
