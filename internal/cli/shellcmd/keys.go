package shellcmd

import (
	"bytes"
	"strings"

	"github.com/berth-dev/berth/internal/cli/verb"
)

// defaultDetachKeys are those of docker.
const defaultDetachKeys = "ctrl-p,ctrl-q"

// parseKeys reads a sequence of keys: characters, and ctrl- with one. None is no sequence.
func parseKeys(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	var keys []byte
	for _, name := range strings.Split(text, ",") {
		control, ok := strings.CutPrefix(strings.ToLower(name), "ctrl-")
		switch {
		case ok && len(control) == 1 && strings.Contains("@abcdefghijklmnopqrstuvwxyz[\\]^_", control):
			keys = append(keys, control[0]&0x1f)
		case !ok && len(name) == 1 && name[0] > ' ' && name[0] < 0x7f:
			keys = append(keys, name[0])
		default:
			return nil, verb.Usage("--detach-keys %q: want keys like a or ctrl-p, with commas between", text)
		}
	}
	return keys, nil
}

// scanner looks for the keys that end a view in what is typed.
type scanner struct {
	keys []byte
	held []byte // what may be their beginning
}

// scan returns what of p is to be typed, and whether the keys have come. What may be their
// beginning waits for the next key.
func (s *scanner) scan(p []byte) (typed []byte, detach bool) {
	if len(s.keys) == 0 {
		return p, false
	}
	for _, c := range p {
		s.held = append(s.held, c)
		for !bytes.HasPrefix(s.keys, s.held) {
			typed = append(typed, s.held[0])
			s.held = s.held[1:]
		}
		if len(s.held) == len(s.keys) {
			return typed, true
		}
	}
	return typed, false
}
