package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// print writes one JSON object on a line of its own.
func (a *app) print(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// say writes a line of a result for a person.
func (a *app) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// table writes rows in columns, the first row being the heading.
func (a *app) table(rows [][]string) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = clean(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// clean makes foreign text harmless for a terminal: control characters, marks that
// change the direction of writing and invalid bytes are shown as Go escapes.
func clean(s string) string {
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

// short rounds a duration for a person.
func short(d time.Duration) string {
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

// orDash shows that there is nothing to show.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// capture keeps the first and the last bytes of a stream, at most limit of them, and
// counts what is between.
type capture struct {
	limit      int
	head, tail []byte
	total      int64
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	k := min(c.limit-c.limit/2-len(c.head), n)
	c.head = append(c.head, p[:k]...)
	c.tail = append(c.tail, p[k:]...)
	// The tail is cut when it is twice as long as it may be: each byte is moved
	// at most once.
	if keep := c.limit / 2; len(c.tail) > 2*keep+len(p) {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keep:]...)
	}
	return n, nil
}

// bytes returns what was kept; omitted is the number of bytes between.
func (c *capture) bytes() (kept []byte, omitted int64) {
	tail := c.tail
	if keep := c.limit / 2; len(tail) > keep {
		tail = tail[len(tail)-keep:]
	}
	kept = append(c.head[:len(c.head):len(c.head)], tail...)
	return kept, c.total - int64(len(kept))
}

var _ io.Writer = (*capture)(nil)
