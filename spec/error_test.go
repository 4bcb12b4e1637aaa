package spec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/spec"
)

// A message reads "op backend id path: code: cause", on one line, whatever the
// parts hold.
func TestErrorMessage(t *testing.T) {
	tests := []struct {
		err  spec.Error
		want string
	}{
		{spec.Error{Code: spec.CodeNotFound}, "not found"},
		{spec.Error{}, "internal error"},
		{spec.Error{Op: "read", Backend: "docker", ID: "sb_1", Path: "/workspace/a", Code: spec.CodeFileNotFound}, `read docker sb_1 "/workspace/a": no such file`},
		{spec.Error{Op: "provision", Code: spec.CodeUnavailable, Err: errors.New("dial: refused")}, "provision: unavailable: dial: refused"},
		{spec.Error{Path: "a b", Code: spec.CodeExists}, `"a b": already exists`},
		{spec.Error{Path: "a\n\xff\x1b", Code: spec.CodeExists}, `"a\n\xff\x1b": already exists`},
		{spec.Error{ID: "x", Code: spec.CodeInternal, Err: errors.New("first\nsecond\t\x1b[31mred\x7f\u0085")}, "x: internal error: first second  [31mred"},
		{spec.Error{Code: spec.CodeInvalid, Hint: "never shown", Err: errors.New("why")}, "invalid: why"},
		{spec.Error{Code: spec.CodePermission, Err: errors.New("permission denied")}, "permission denied"},
		{spec.Error{Code: spec.CodePermission, Err: errors.New("mkdir /x: permission denied")}, "permission denied: mkdir /x"},
		{spec.Error{Code: spec.CodeInvalid, Err: errors.New("it is invalid")}, "invalid: it is invalid"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	long := spec.Error{Code: spec.CodeInternal, Err: errors.New(strings.Repeat("x", 100_000))}
	if n := len(long.Error()); n > 1200 {
		t.Errorf("a cause of 100,000 bytes makes a message of %d", n)
	}
}

// errors.Is sees the sentinel, the cause, and the twin in the standard library.
func TestErrorIs(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", &spec.Error{Code: spec.CodeNotFound, Err: fmt.Errorf("inner: %w", cause)})
	for _, target := range []error{spec.ErrNotFound, cause} {
		if !errors.Is(err, target) {
			t.Errorf("%v is not %v", err, target)
		}
	}
	twins := map[error][]spec.Code{
		fs.ErrNotExist:        {spec.CodeFileNotFound},
		fs.ErrExist:           {spec.CodeExists},
		fs.ErrPermission:      {spec.CodePermission, spec.CodeNotWritable},
		fs.ErrInvalid:         {spec.CodeInvalid, spec.CodeInvalidPath},
		errors.ErrUnsupported: {spec.CodeUnsupported},
	}
	for twin, codes := range twins {
		for _, row := range spec.Codes() {
			want := false
			for _, c := range codes {
				want = want || c == row.Code
			}
			if got := errors.Is(&spec.Error{Code: row.Code}, twin); got != want {
				t.Errorf("%s is %v: %v, want %v", row.Code, twin, got, want)
			}
		}
	}
	if !errors.Is(&spec.Error{Code: spec.CodeStartFailed, Err: syscall.ENOENT}, fs.ErrNotExist) {
		t.Error("the cause of a start that failed is hidden")
	}
	if !errors.Is(&spec.Error{Code: spec.CodeUnknownOutcome, Err: context.Canceled}, context.Canceled) {
		t.Error("a context's error as a cause is hidden")
	}
}

// CodeOf is the outermost code; what callers compare by habit has none.
func TestCodeOf(t *testing.T) {
	inner := &spec.Error{Code: spec.CodeNoSpace}
	for _, tt := range []struct {
		err  error
		want spec.Code
	}{
		{nil, ""},
		{io.EOF, ""},
		{context.Canceled, ""},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), ""},
		{errors.New("plain"), spec.CodeInternal},
		{io.ErrUnexpectedEOF, spec.CodeInternal},
		{inner, spec.CodeNoSpace},
		{fmt.Errorf("outer: %w", inner), spec.CodeNoSpace},
		{&spec.Error{Code: spec.CodeUnavailable, Err: inner}, spec.CodeUnavailable},
		{&spec.Error{Code: spec.CodeUnavailable, Err: context.Canceled}, spec.CodeUnavailable},
	} {
		if got := spec.CodeOf(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// HintOf finds the outermost hint that there is.
func TestHintOf(t *testing.T) {
	deep := fmt.Errorf("x: %w", &spec.Error{Code: spec.CodeInternal, Err: fmt.Errorf("y: %w", &spec.Error{Hint: "inner"})})
	for _, tt := range []struct {
		err  error
		want string
	}{{nil, ""}, {errors.New("x"), ""}, {deep, "inner"}, {&spec.Error{Hint: "outer", Err: deep}, "outer"}, {&spec.Error{}, ""}} {
		if got := spec.HintOf(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// Wrap states each fact once, keeps the code, and lets pass what callers compare
// by habit.
func TestWrap(t *testing.T) {
	for _, err := range []error{nil, io.EOF, context.Canceled, context.DeadlineExceeded} {
		if got := spec.Wrap(err, "op", "b", "id", "p"); got != err {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	cause := errors.New("cause")
	original := &spec.Error{Op: "read", Path: "/inner", Code: spec.CodeNoSpace, Err: cause, Hint: "free some"}
	once := spec.Wrap(original, "outer", "docker", "", "/outer")
	twice := spec.Wrap(once, "again", "again", "sb_1", "again")
	want := &spec.Error{Op: "read", Backend: "docker", ID: "sb_1", Path: "/inner", Code: spec.CodeNoSpace, Err: cause, Hint: "free some"}
	if got := twice.(*spec.Error); *got != *want {
		t.Errorf("wrapped twice: %+v, want %+v", got, want)
	}
	if original.Backend != "" {
		t.Error("Wrap has changed the error that it was given")
	}
	plain := spec.Wrap(cause, "op", "b", "id", "p").(*spec.Error)
	if plain.Code != spec.CodeInternal || plain.Op != "op" || plain.Path != "p" || !errors.Is(plain, cause) {
		t.Errorf("a plain error becomes %+v", plain)
	}
	// An *Error further down gives its code and its hint to the one on top.
	outer := spec.Wrap(fmt.Errorf("while waiting: %w", original), "op", "", "", "").(*spec.Error)
	if outer.Code != spec.CodeNoSpace || outer.Op != "op" || outer.Hint != "free some" || !errors.Is(outer, cause) {
		t.Errorf("an error around an *Error becomes %+v", outer)
	}
	lost := &spec.Error{Code: spec.CodeUnknownOutcome, Err: context.Canceled}
	if got := spec.Wrap(lost, "op", "", "", ""); spec.CodeOf(got) != spec.CodeUnknownOutcome {
		t.Errorf("an *Error because of a context becomes %v", got)
	}
}
