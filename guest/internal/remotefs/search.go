package remotefs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/guest/internal/ask"
	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// Glob implements files.Globber. A search that breaks off after its first match is
// not begun again: it is CodeUnavailable.
func (f fileSystem) Glob(ctx context.Context, o files.GlobOptions) iter.Seq2[files.Match, error] {
	return func(yield func(files.Match, error) bool) {
		if err := o.Validate(); err != nil {
			yield(files.Match{}, at(err, o.Dir))
			return
		}
		r := wire.FromGlob(o)
		left := limit(o.Limit)
		err := search(ctx, f.s, &wire.Request{Op: wire.OpGlob, Glob: &r}, func(r io.Reader) func() (files.Match, error) {
			return wire.NewMatchReader(r, o.Metadata).Next
		}, func(m *files.Match) (more bool, err error) {
			if left == 0 || !wanted(o.Types, m.Info.Mode) {
				return false, ask.Violation("a match that was not asked for")
			}
			left--
			return yield(*m, nil), nil
		})
		if err != nil {
			yield(files.Match{}, below(err, o.Dir))
		}
	}
}

// wanted reports whether types, 0 for all, hold the type of mode.
func wanted(types files.GlobTypes, mode fs.FileMode) bool {
	kind := files.GlobOther
	switch mode.Type() {
	case 0:
		kind = files.GlobFiles
	case fs.ModeDir:
		kind = files.GlobDirs
	case fs.ModeSymlink:
		kind = files.GlobLinks
	}
	return types == 0 || types&kind != 0
}

// limit is how many results are allowed; -1: any number.
func limit(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Grep implements files.Grepper, with Glob's rule for one that breaks off.
func (f fileSystem) Grep(ctx context.Context, o files.GrepOptions) iter.Seq2[files.Line, error] {
	return func(yield func(files.Line, error) bool) {
		if err := o.Validate(); err != nil {
			yield(files.Line{}, at(err, o.Files.Dir))
			return
		}
		r := wire.FromGrep(o)
		most := o.MaxLineBytes
		if most == 0 {
			most = files.DefaultLineBytes
		}
		most = min(most, wire.MaxLineText)
		due := newLinesDue(o)
		err := search(ctx, f.s, &wire.Request{Op: wire.OpGrep, Grep: &r}, func(r io.Reader) func() (files.Line, error) {
			return wire.NewLineReader(r, most).Next
		}, func(l *files.Line) (more bool, err error) {
			if !due.take(l) {
				return false, ask.Violation("a line that was not asked for")
			}
			return yield(*l, nil), nil
		})
		if err != nil {
			yield(files.Line{}, below(err, o.Files.Dir))
		}
	}
}

// linesDue counts what a search for lines may still give.
type linesDue struct {
	matches   int    // of all files; negative: any number
	perFile   int    // likewise, of one
	around    int    // the context of one match
	path      string // of the last line
	here      int    // matches in that file
	unmatched int    // lines since the last match
}

func newLinesDue(o files.GrepOptions) *linesDue {
	return &linesDue{matches: limit(o.Limit), perFile: limit(o.LimitPerFile), around: 2 * o.Context}
}

// take counts a line, and reports whether it was due. Between two matches lie the
// context of the one and that of the other.
func (d *linesDue) take(l *files.Line) bool {
	if l.Path != d.path {
		d.path, d.here = l.Path, 0
	}
	if !l.Match {
		d.unmatched++
		return d.unmatched <= d.around
	}
	if d.matches == 0 || d.here == d.perFile {
		return false
	}
	d.matches--
	d.here++
	d.unmatched = 0
	return true
}

// search makes a request that is answered by a stream of records and takes each. It
// is made once more if its connection breaks before the first record. After take has
// said that it is enough the error is nil.
func search[T any](ctx context.Context, s ask.Session, req *wire.Request, records func(io.Reader) func() (T, error), take func(*T) (bool, error)) error {
	fresh, err := searchOnce(ctx, s, req, records, take)
	if fresh && s.Repeatable(err) {
		_, err = searchOnce(ctx, s, req, records, take)
	}
	return err
}

// searchOnce says too whether nothing had come.
func searchOnce[T any](ctx context.Context, s ask.Session, req *wire.Request, records func(io.Reader) func() (T, error), take func(*T) (bool, error)) (fresh bool, err error) {
	st, err := s.Open(ctx, req, false)
	if err != nil {
		return true, err
	}
	defer st.End()
	next := records(wire.NewDataReader(st))
	for fresh = true; ; fresh = false {
		record, err := next()
		if err == io.EOF {
			return fresh, nil
		}
		if err != nil {
			return fresh, st.Failed(ctx, err, false)
		}
		if more, err := take(&record); err != nil || !more {
			return false, err
		}
	}
}

// below is at for a search: its error may be about what lies in dir.
func below(err error, dir string) error {
	var e *spec.Error
	if errors.As(err, &e) && e.Path == "" {
		return err
	}
	return at(err, dir)
}
