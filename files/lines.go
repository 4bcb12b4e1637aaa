package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/berth-dev/berth/spec"
)

// The defaults of LinesOptions.
const (
	DefaultLines       = 2000
	DefaultWindowBytes = 256 << 10
)

// LinesOptions say which lines of a text file ReadLines returns.
type LinesOptions struct {
	// From is the number of the first line, from 1; 0: 1.
	From int64
	// Count is the most lines; 0: DefaultLines.
	Count int
	// MaxBytes bounds the text of all lines; 0: DefaultWindowBytes. The first
	// line is there in any case, cut if need be.
	MaxBytes int
	// MaxLineBytes cuts a longer line; 0: DefaultLineBytes.
	MaxLineBytes int
}

// Lines is a window of a text file.
type Lines struct {
	// Lines are the lines, without their newlines; Path and Match are not set.
	// The last line of a file counts as one whether or not a newline ends it.
	Lines []Line
	// More: there is more behind the last of Lines. How much is not known.
	More bool
}

// ReadLines returns a window of the lines of a regular file. It reads the file up to
// the end of the window and no further, and has the window in memory and nothing
// else. A window past the end is empty and no error.
func ReadLines(ctx context.Context, fsys FS, name string, o LinesOptions) (Lines, error) {
	if o.From < 0 || o.Count < 0 || o.MaxBytes < 0 || o.MaxLineBytes < 0 {
		return Lines{}, &spec.Error{Path: name, Code: spec.CodeInvalid, Err: errors.New("a negative line number, count or limit")}
	}
	o.Count = cmp.Or(o.Count, DefaultLines)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultWindowBytes)
	o.MaxLineBytes = cmp.Or(o.MaxLineBytes, DefaultLineBytes)
	f, err := fsys.Open(ctx, name, OpenOptions{})
	if err != nil {
		return Lines{}, err
	}
	defer f.Close()
	var r lineReader
	r.reset(f)
	var out Lines
	for n, left := int64(1), o.MaxBytes; ; n++ {
		if err := ctx.Err(); err != nil {
			return Lines{}, err
		}
		text, cut, err := r.next(o.MaxLineBytes)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return Lines{}, spec.Wrap(err, "", "", "", name)
		}
		if n < o.From {
			continue
		}
		if len(out.Lines) == 0 && len(text) > left {
			text, cut = text[:left], true
		}
		if len(out.Lines) == o.Count || len(text) > left {
			out.More = true
			return out, nil
		}
		left -= len(text)
		out.Lines = append(out.Lines, Line{Number: n, Text: bytes.Clone(text), Cut: cut})
	}
}

// ReadHead returns the first n bytes of a regular file, or fewer if it has no more.
func ReadHead(ctx context.Context, fsys FS, name string, n int64) ([]byte, error) {
	if n < 0 || n > DefaultReadLimit {
		return nil, &spec.Error{Path: name, Code: spec.CodeInvalid, Err: errors.New("a head that is negative or over 4 MiB")}
	}
	if n == 0 { // an Open has no length of 0
		f, err := fsys.Open(ctx, name, OpenOptions{Length: 1})
		if err != nil {
			return nil, err
		}
		return nil, f.Close()
	}
	return readAll(ctx, fsys, name, OpenOptions{Length: n})
}

// Size returns the size of what name leads to if that is a regular file, and says of
// nothing else that or why it is none: a caller who may not know what exists learns
// nothing from it.
func Size(ctx context.Context, fsys FS, name string) (size int64, ok bool) {
	info, err := fsys.Stat(ctx, name, StatOptions{Follow: true})
	if err != nil || !info.IsRegular() {
		return 0, false
	}
	return info.Size, true
}
