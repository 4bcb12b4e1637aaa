package spec

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

// Error is the one error type of Berth. A driver sets Code and Err at the point
// where it knows them; the portable type adds Op, Backend and ID exactly once.
//
// The message reads "op backend id path: code: cause". It holds no environment
// values, no secrets and no arguments of a command.
type Error struct {
	Op      string // what was being done: "provision", "read", "exec"
	Backend string // the driver's name; "" where none is involved
	ID      string // the sandbox; "" before there is one
	Path    string // the path inside the place, as given; "" where none is involved
	Code    Code
	Err     error  // the cause, or nil
	Hint    string // advice for a person, printed by the CLI and never part of Error()
}

// Error returns the message on one line.
func (e *Error) Error() string {
	var b strings.Builder
	for _, part := range []string{e.Op, e.Backend, e.ID} {
		if part != "" {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(part)
		}
	}
	if e.Path != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Quote(e.Path))
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	code := e.Code.Info().Text
	b.WriteString(code)
	if e.Err != nil {
		// A cause that ends with what the code says does not say it again.
		cause := oneLine(e.Err.Error())
		if cause = strings.TrimSuffix(": "+cause, ": "+code); cause != "" {
			b.WriteString(cause)
		}
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As the code's sentinel and the cause.
func (e *Error) Unwrap() []error {
	errs := []error{sentinel(e.Code.Info().Code)}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// Is makes the codes that have a twin in io/fs match it, so that
// errors.Is(err, fs.ErrNotExist) holds for a missing file.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == CodeFileNotFound
	case fs.ErrExist:
		return e.Code == CodeExists
	case fs.ErrPermission:
		return e.Code == CodePermission || e.Code == CodeNotWritable
	case fs.ErrInvalid:
		return e.Code == CodeInvalid || e.Code == CodeInvalidPath
	case errors.ErrUnsupported:
		return e.Code == CodeUnsupported
	}
	return false
}

// Errorf-like constructors are absent on purpose: a literal &Error{Code: ...}
// names its fields and can be vetted.

// New returns an *Error with a code and a cause in words.
func New(code Code, text string) *Error { return &Error{Code: code, Err: errors.New(text)} }

// CodeOf returns the code of err: that of the outermost *Error in its chain,
// "" for nil, io.EOF and context errors, and CodeInternal for anything else.
func CodeOf(err error) Code {
	if err == nil || passes(err) {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// HintOf returns the first hint in err's chain, or "".
func HintOf(err error) string {
	var e *Error
	for errors.As(err, &e) {
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// Wrap adds where something failed to err and returns a *Error. A *Error keeps
// its code and whatever it already says of Op, Backend, ID and Path: a fact is
// stated once. nil, io.EOF and context errors pass unchanged. Any other error
// becomes CodeInternal.
func Wrap(err error, op, backend, id, path string) error {
	if err == nil || passes(err) {
		return err
	}
	e, ok := err.(*Error) //nolint:errorlint // only the outermost one is completed
	if !ok {
		return &Error{Op: op, Backend: backend, ID: id, Path: path, Code: CodeOf(err), Err: err, Hint: HintOf(err)}
	}
	c := *e
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&c.Op, op)
	fill(&c.Backend, backend)
	fill(&c.ID, id)
	fill(&c.Path, path)
	return &c
}

// passes reports whether err is one that callers compare with == by habit. A
// *Error whose cause is a context error does not pass: it says more.
func passes(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return false
	}
	return err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// oneLine keeps a foreign message on one line, printable and bounded.
func oneLine(s string) string {
	const maxMessage = 1024
	if len(s) > maxMessage {
		s = s[:maxMessage] + "..."
	}
	clean := func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return ' '
		}
		return r
	}
	return strings.TrimSpace(strings.Map(clean, s))
}
