package files

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"

	"github.com/berth-dev/berth/spec"
)

// The limits of Grep.
const (
	DefaultLineBytes = 4096    // of a line that is yielded
	maxContext       = 100     // lines around a match
	maxSearchBytes   = 1 << 20 // of a line that is searched
	binaryBytes      = 8 << 10 // in which a NUL makes a file binary
	maxPatternBytes  = 64 << 10
)

// Grep yields the lines that o selects; Grepper says what is promised.
func Grep(ctx context.Context, fsys FS, o GrepOptions) iter.Seq2[Line, error] {
	if g, ok := fsys.(Grepper); ok {
		return g.Grep(ctx, o)
	}
	return func(yield func(Line, error) bool) {
		g, err := newGrep(ctx, fsys, o, yield)
		if err == nil {
			err = g.run()
		}
		if err != nil && err != errStop {
			yield(Line{}, err)
		}
	}
}

// grep is one Grep under way.
type grep struct {
	ctx     context.Context // of the call
	fsys    FS
	o       GrepOptions
	matches func(line []byte) bool
	yield   func(Line, error) bool
	left    int // matches; negative: any number
	lines   lineReader
	before  []Line // the last lines that did not match, the oldest first
}

func newGrep(ctx context.Context, fsys FS, o GrepOptions, yield func(Line, error) bool) (*grep, error) {
	switch {
	case o.Limit < 0 || o.LimitPerFile < 0 || o.MaxLineBytes < 0 || o.Context < 0 || o.Context > maxContext:
		return nil, spec.New(spec.CodeInvalid, fmt.Sprintf("a limit that is negative, or a context that is not 0 to %d lines", maxContext))
	case len(o.Pattern) > maxPatternBytes:
		return nil, spec.New(spec.CodeInvalid, "the pattern is too long")
	}
	matches, err := matcher(o)
	if err != nil {
		return nil, &spec.Error{Code: spec.CodeInvalid, Err: err}
	}
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = DefaultLineBytes
	}
	o.Files.Types, o.Files.Limit, o.Files.Metadata = GlobFiles, 0, false
	g := &grep{ctx: ctx, fsys: fsys, o: o, matches: matches, yield: yield, left: -1}
	if o.Limit > 0 {
		g.left = o.Limit
	}
	return g, nil
}

func matcher(o GrepOptions) (func([]byte) bool, error) {
	if o.Literal && !o.IgnoreCase {
		text := []byte(o.Pattern)
		return func(line []byte) bool { return bytes.Contains(line, text) }, nil
	}
	text := o.Pattern
	if o.Literal {
		text = regexp.QuoteMeta(text)
	}
	if o.IgnoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return re.Match, nil
}

func (g *grep) run() error {
	for m, err := range Glob(g.ctx, g.fsys, g.o.Files) {
		if err != nil {
			return err
		}
		if err := g.file(m.Path); err != nil {
			return err
		}
	}
	return nil
}

// file searches one file. What stops it is passed over if it is about this file.
func (g *grep) file(path string) error {
	name := join(g.o.Files.Dir, path)
	f, err := g.fsys.Open(g.ctx, name, OpenOptions{NoFollow: true})
	if err != nil {
		return pass(err)
	}
	defer f.Close()
	g.lines.reset(f)
	if g.lines.binary() {
		return nil
	}
	err = g.search(path)
	if err == nil || err == errStop {
		return err
	}
	if spec.CodeOf(err) == spec.CodeUnavailable {
		// A file that shrinks while it is read, or a place that is gone?
		_, gone := g.fsys.Stat(g.ctx, name, StatOptions{})
		return pass(gone)
	}
	return pass(err)
}

// search yields what matches in g.lines.
func (g *grep) search(path string) error {
	g.before = g.before[:0]
	found, after := 0, 0
	for n := int64(1); ; n++ {
		if err := g.ctx.Err(); err != nil {
			return err
		}
		text, cut, err := g.lines.next(maxSearchBytes)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		more := (g.o.LimitPerFile == 0 || found < g.o.LimitPerFile) && g.left != 0
		match := more && g.matches(text)
		line := Line{Path: path, Number: n, Cut: cut, Match: match}
		switch {
		case match:
			found++
			g.left--
			after = g.o.Context
			if err := g.tell(line, text); err != nil {
				return err
			}
		case after > 0:
			after--
			if err := g.tell(line, text); err != nil {
				return err
			}
		case more && g.o.Context > 0:
			g.remember(line, text)
		}
		if after == 0 && g.left == 0 {
			return errStop
		}
		if after == 0 && g.o.LimitPerFile > 0 && found == g.o.LimitPerFile {
			return nil
		}
	}
}

// tell yields line, and before it the lines remembered.
func (g *grep) tell(line Line, text []byte) error {
	for _, b := range g.before {
		if !g.yield(b, nil) {
			return errStop
		}
	}
	g.before = g.before[:0]
	if !g.yield(g.clip(line, text), nil) {
		return errStop
	}
	return nil
}

func (g *grep) remember(line Line, text []byte) {
	if len(g.before) == g.o.Context {
		copy(g.before, g.before[1:])
		g.before = g.before[:len(g.before)-1]
	}
	g.before = append(g.before, g.clip(line, text))
}

// clip gives line a copy of text that is as long as is allowed.
func (g *grep) clip(line Line, text []byte) Line {
	if len(text) > g.o.MaxLineBytes {
		text, line.Cut = text[:g.o.MaxLineBytes], true
	}
	line.Text = bytes.Clone(text)
	return line
}

// lineReader reads lines of any length in bounded memory.
type lineReader struct {
	r    *bufio.Reader
	long []byte // a line that is longer than the buffer of r
}

// lineBuffer holds most lines, so that they are not copied.
const lineBuffer = 64 << 10

func (l *lineReader) reset(src io.Reader) {
	if l.r == nil {
		l.r = bufio.NewReaderSize(src, lineBuffer)
		return
	}
	l.r.Reset(src)
}

// binary reports whether what follows does not look like text.
func (l *lineReader) binary() bool {
	head, _ := l.r.Peek(binaryBytes)
	return bytes.IndexByte(head, 0) >= 0
}

// next returns the next line without its newline, valid until the next call, and
// whether it is cut after limit bytes. io.EOF: there is none.
func (l *lineReader) next(limit int) (text []byte, cut bool, err error) {
	l.long = l.long[:0]
	for {
		text, err = l.r.ReadSlice('\n')
		if err == nil {
			text = text[:len(text)-1]
		}
		if err == nil && len(l.long) == 0 && !cut {
			break
		}
		room := max(limit-len(l.long), 0)
		cut = cut || len(text) > room
		l.long = append(l.long, text[:min(len(text), room)]...)
		if err == nil || errors.Is(err, io.EOF) && (len(l.long) > 0 || cut) {
			return l.long, cut, nil
		}
		if err != bufio.ErrBufferFull {
			return nil, false, err
		}
	}
	if len(text) > limit {
		return text[:limit], true, nil
	}
	return text, false, nil
}
