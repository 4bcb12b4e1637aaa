package shell

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// The parser takes UTF-8 only, and a script is bytes: a byte that is none stands in it
// as a rune of the last private plane while it is parsed. Runes that are there already
// are taken apart into bytes likewise.
const (
	firstStandIn = 0x10ff00
	lastStandIn  = firstStandIn + 0xff
)

// parse parses a script, whatever bytes it holds. It returns the statements on the
// lines before an error, too: they run before the shell gets there.
func parse(script string) ([]*syntax.Stmt, error) {
	text, changed := standIn(script)
	var out []*syntax.Stmt
	var failed error
	for stmt, err := range syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).StmtsSeq(strings.NewReader(text)) {
		if err != nil {
			out, failed = wholeLines(out, text), err
			break
		}
		out = append(out, stmt)
	}
	if changed {
		for _, s := range out {
			syntax.Walk(s, restore)
		}
	}
	return out, failed
}

// wholeLines leaves out the statements at the end that another one, which could not be
// parsed, follows on their line.
func wholeLines(list []*syntax.Stmt, text string) []*syntax.Stmt {
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1].End()
	rest := strings.TrimLeft(text[min(int(last.Offset()), len(text)):], " \t;&")
	if rest == "" || rest[0] == '\n' || rest[0] == '#' {
		return list
	}
	for len(list) > 0 && list[len(list)-1].End().Line() == last.Line() {
		list = list[:len(list)-1]
	}
	return list
}

func standIn(s string) (string, bool) {
	var b strings.Builder
	changed := false
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || r >= firstStandIn && r <= lastStandIn {
			for _, c := range []byte(s[i : i+size]) {
				b.WriteRune(firstStandIn + rune(c))
			}
			changed = true
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String(), changed
}

// restore puts the bytes back into a node.
func restore(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.Lit:
		n.Value = original(n.Value)
	case *syntax.SglQuoted:
		n.Value = original(n.Value)
	}
	return true
}

func original(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= firstStandIn && r <= lastStandIn {
			b.WriteByte(byte(r - firstStandIn))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
