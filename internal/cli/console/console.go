// Package console is how the verbs of berth speak to whoever runs it: results on
// stdout, as text or as JSON; notes, progress and errors on stderr. Whatever comes out
// of a sandbox and is shown in one of them has its control characters escaped.
package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// Console is the streams of one run of berth, and how it is to use them.
type Console struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// JSON prints results and errors as JSON, and no notes. Quiet: no notes and no
	// progress. Verbose: details too. Color: a terminal may be coloured.
	JSON, Quiet, Verbose, Color bool
}

// Terminal reports whether a stream is a terminal that a person looks at.
func Terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Print writes one JSON object on a line of its own.
func (c *Console) Print(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.Stdout.Write(plain(buf.Bytes()))
	return err
}

// plain escapes in JSON the control characters that JSON lets stand and a terminal may obey:
// DEL and those of C1, which have two bytes each.
func plain(text []byte) []byte {
	var out []byte
	rest := text
	for i := 0; i < len(rest); {
		r, n := utf8.DecodeRune(rest[i:])
		if r >= 0x7f && r <= 0x9f {
			out = fmt.Appendf(append(out, rest[:i]...), "\\u%04x", r)
			rest, i = rest[i+n:], 0
			continue
		}
		i += n
	}
	if out == nil {
		return text
	}
	return append(out, rest...)
}

// Say writes a line of a result for a person.
func (c *Console) Say(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Stdout, format+"\n", args...)
	return err
}

// Table writes rows in columns, the first row being the heading.
func (c *Console) Table(rows [][]string) error {
	w := tabwriter.NewWriter(c.Stdout, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Clean(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

// Complain prints an error for a person: one line, and one with the hint. verb may be
// "".
func (c *Console) Complain(verb, message, hint string) {
	prefix, dim, end := "berth: ", "", ""
	if c.Color && !c.JSON && Terminal(c.Stderr) {
		prefix, dim, end = "\x1b[1;31mberth:\x1b[0m ", "\x1b[2m", "\x1b[0m"
	}
	if verb != "" {
		prefix += verb + ": "
	}
	fmt.Fprintf(c.Stderr, "%s%s\n", prefix, Clean(message))
	if hint != "" {
		fmt.Fprintf(c.Stderr, "%shint: %s%s\n", dim, Clean(hint), end)
	}
}

// Note prints a remark for a person, unless Quiet or JSON.
func (c *Console) Note(format string, args ...any) {
	if !c.Quiet && !c.JSON {
		fmt.Fprintf(c.Stderr, "berth: %s\n", Clean(fmt.Sprintf(format, args...)))
	}
}

// Detail is a Note that only Verbose shows.
func (c *Console) Detail(format string, args ...any) {
	if c.Verbose {
		c.Note(format, args...)
	}
}
