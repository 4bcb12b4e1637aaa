package console

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean makes foreign text harmless for a terminal: control characters, marks that
// change the direction of writing and invalid bytes are shown as Go escapes.
func Clean(s string) string {
	harmless := func(r rune) bool { return unicode.IsPrint(r) || r == ' ' }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x80 && !harmless(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case harmless(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// Short rounds a duration for a person.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Round(time.Second)
	}
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if rest, ok := strings.CutSuffix(text, zero); ok && strings.TrimRight(rest, "hm") != rest {
			text = rest
		}
	}
	return text
}

// Bytes rounds a number of bytes for a person.
func Bytes(n int64) string {
	const kilo = 1 << 10
	if n < kilo {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if value /= kilo; value < kilo {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// OrDash shows that there is nothing to show.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Text gives bytes the form in which JSON keeps them whole: text, or base64 of what is
// not UTF-8. One of them is nil.
func Text(data []byte) (text, b64 *string) {
	if utf8.Valid(data) {
		s := string(data)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(data)
	return nil, &s
}

// Exact returns the bytes of a list that JSON cannot say as text, because one of it is not
// UTF-8; else nil.
func Exact(list []string) [][]byte {
	if !slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
		return nil
	}
	exact := make([][]byte, len(list))
	for i, s := range list {
		exact[i] = []byte(s)
	}
	return exact
}
