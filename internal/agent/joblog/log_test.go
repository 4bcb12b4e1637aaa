//go:build linux

package joblog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/internal/agent/joblog"
	"github.com/berth-dev/berth/spec"
)

const name = "job-1.log"

// place is a directory that holds logs.
type place struct {
	dir string
	fd  int
}

func newPlace(t testing.TB) place {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return place{dir, int(f.Fd())}
}

func (p place) create(t testing.TB, limit int64) *joblog.Log {
	t.Helper()
	l, err := joblog.Create(p.fd, name, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (p place) open(t testing.TB, limit int64) *joblog.Log {
	t.Helper()
	l, err := joblog.Open(t.Context(), p.fd, name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// all reads a window to its end.
func all(ctx context.Context, l *joblog.Log, w spec.LogWindow) ([]byte, spec.LogInfo, error) {
	r, err := l.Read(w)
	if err != nil {
		return nil, spec.LogInfo{}, err
	}
	defer r.Close()
	var out []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(ctx, buf)
		out = append(out, buf[:n]...)
		if err == io.EOF {
			return out, r.Info(), nil
		}
		if err != nil {
			return out, r.Info(), err
		}
	}
}

// model is what a window shows, by the contract, of a log that holds data.
func model(data string, w spec.LogWindow) (string, spec.LogInfo) {
	count := int64(strings.Count(data, "\n"))
	if data != "" && !strings.HasSuffix(data, "\n") {
		count++
	}
	info := spec.LogInfo{Lines: count, Bytes: int64(len(data))}
	first := max(w.From, 1)
	if w.From < 0 {
		first = max(count+1+w.From, 1)
	}
	first = min(first, count+1)
	at := int64(len(data) - len(afterLines(data, first-1)))
	if w.Offset > 0 {
		at = min(w.Offset, int64(len(data)))
		first = int64(strings.Count(data[:at], "\n")) + 1
		if at == int64(len(data)) {
			first = count + 1
		}
	}
	info.FirstLine, info.Offset = first, at
	out := data[at:]
	if w.Lines > 0 {
		out = out[:len(out)-len(afterLines(out, w.Lines))]
	}
	if w.MaxBytes > 0 {
		out = out[:min(int64(len(out)), w.MaxBytes)]
	}
	return out, info
}

// afterLines is what follows the first n lines.
func afterLines(data string, n int64) string {
	for ; n > 0 && data != ""; n-- {
		_, data, _ = strings.Cut(data, "\n")
	}
	return data
}

// check compares one window of a log with the model.
func check(t *testing.T, l *joblog.Log, data string, w spec.LogWindow) {
	t.Helper()
	got, info, err := all(t.Context(), l, w)
	want, wantInfo := model(data, w)
	wantInfo.Complete = l.Stats().Complete
	if err != nil || string(got) != want {
		t.Fatalf("window %+v of %d bytes: %d bytes %.40q, %v; want %d bytes %.40q", w, len(data), len(got), got, err, len(want), want)
	}
	if diff := cmp.Diff(wantInfo, info); diff != "" {
		t.Fatalf("window %+v of %d bytes: %s", w, len(data), diff)
	}
}

// A window shows the lines that it names, wherever blocks begin, whether the log is
// being written, complete, met again after a restart with its index or without.
func TestWindows(t *testing.T) {
	block := strings.Repeat("x", joblog.BlockBytes-1) + "\n"
	contents := map[string]string{
		"empty":             "",
		"one byte":          "a",
		"one newline":       "\n",
		"no newline":        "a\nb\nc",
		"blank lines":       "\n\na\n\n",
		"a block":           block,
		"a block and more":  block + "y",
		"newline in front":  strings.Repeat("x", joblog.BlockBytes) + "\ny\n",
		"a line of blocks":  strings.Repeat("x", 3*joblog.BlockBytes+5) + "\nshort\n",
		"newlines only":     strings.Repeat("\n", 2*joblog.BlockBytes+7),
		"not text":          "\x00\xff\r\n\x80\n",
		"many short lines":  numbered(40_000),
		"many blocks, open": strings.Repeat(block, 70) + "end",
	}
	windows := []spec.LogWindow{{}}
	for _, from := range []int64{1, 2, 3, 39_999, 65_537, 1 << 40, -1, -2, -1000, -1 << 40} {
		for _, w := range []spec.LogWindow{{Lines: 1}, {Lines: 400}, {Lines: 1 << 40, MaxBytes: 3}} {
			w.From = from
			windows = append(windows, w)
		}
	}
	for _, offset := range []int64{1, 3, joblog.BlockBytes - 1, joblog.BlockBytes, joblog.BlockBytes + 1, 1 << 40} {
		windows = append(windows, spec.LogWindow{Offset: offset}, spec.LogWindow{Offset: offset, Lines: 1}, spec.LogWindow{Offset: offset, MaxBytes: 1})
	}
	for title, data := range contents {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t)
			l := p.create(t, 1<<30)
			for rest := []byte(data); len(rest) > 0; {
				n := min(len(rest), 10_007)
				l.Write(rest[:n])
				rest = rest[n:]
			}
			for _, w := range windows {
				check(t, l, data, w)
			}
			l.Close()
			again := p.open(t, 1<<30)
			if err := os.WriteFile(filepath.Join(p.dir, joblog.IndexName(name)), []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, l := range []*joblog.Log{l, again, p.open(t, 1<<30)} {
				for _, w := range windows {
					check(t, l, data, w)
				}
			}
		})
	}
}

// numbered are lines whose text is their number.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// Follow goes on with what is written later and ends with the log; a follower that waits
// for a line that comes ends with it.
func TestFollow(t *testing.T) {
	l := newPlace(t).create(t, 1<<30)
	l.Write([]byte("one\ntw"))
	type got struct {
		text string
		err  error
	}
	read := func(w spec.LogWindow) chan got {
		c := make(chan got, 1)
		w.Follow = true
		r, err := l.Read(w)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer r.Close()
			var out []byte
			buf := make([]byte, 4)
			for {
				n, err := r.Read(t.Context(), buf)
				out = append(out, buf[:n]...)
				if err != nil {
					c <- got{string(out), err}
					return
				}
			}
		}()
		return c
	}
	atEnd, pastEnd := read(spec.LogWindow{Offset: 6, Lines: 1}), read(spec.LogWindow{From: 9, Lines: 1})
	whole, tail, last, bytes := read(spec.LogWindow{}), read(spec.LogWindow{From: 3}), read(spec.LogWindow{From: 2, Lines: 1}), read(spec.LogWindow{MaxBytes: 8})
	l.Write([]byte("o\nthree"))
	want := func(c chan got, text string) {
		t.Helper()
		if g := <-c; g.text != text || g.err != io.EOF {
			t.Errorf("%q, %v; want %q and the end", g.text, g.err, text)
		}
	}
	want(last, "two\n")
	want(atEnd, "o\n") // what is left of the line counts as one
	want(pastEnd, "o\n")
	want(bytes, "one\ntwo\n")
	l.Write([]byte("\n"))
	l.Close()
	want(whole, "one\ntwo\nthree\n")
	want(tail, "o\nthree\n")
	want(read(spec.LogWindow{}), "one\ntwo\nthree\n")
}

// A follower that is cancelled returns; nothing has to be written for it.
func TestFollowCancelled(t *testing.T) {
	l := newPlace(t).create(t, 1<<30)
	r, err := l.Read(spec.LogWindow{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if n, err := r.Read(ctx, make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// The cap stops the log: what comes after it is counted, and exactly as much as the cap
// is whole.
func TestCap(t *testing.T) {
	for _, tt := range []struct {
		writes  []string
		kept    string
		omitted int64
	}{
		{[]string{"12345"}, "12345", 0},
		{[]string{"123456"}, "12345", 1},
		{[]string{"123", "4567", "89"}, "12345", 4},
	} {
		p := newPlace(t)
		l := p.create(t, 5)
		for _, w := range tt.writes {
			if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("write: %d, %v", n, err)
			}
		}
		l.Close()
		data, _, err := all(t.Context(), l, spec.LogWindow{})
		if err != nil || string(data) != tt.kept || l.Stats() != (joblog.Stats{Lines: 1, Bytes: 5, Omitted: tt.omitted, Complete: true}) {
			t.Errorf("%q: %q, %+v, %v", tt.writes, data, l.Stats(), err)
		}
	}
}

// A log that a command has cut, emptied, replaced by something else or made longer is an
// error or other bytes, never a wait.
func TestTampered(t *testing.T) {
	data := numbered(50_000)
	path := func(p place) string { return filepath.Join(p.dir, name) }
	for title, tamper := range map[string]func(t *testing.T, p place) error{
		"cut":     func(_ *testing.T, p place) error { return os.Truncate(path(p), 100) },
		"emptied": func(_ *testing.T, p place) error { return os.Truncate(path(p), 0) },
		"removed": func(_ *testing.T, p place) error { return os.Remove(path(p)) },
		"a directory": func(_ *testing.T, p place) error {
			return errors.Join(os.Remove(path(p)), os.Mkdir(path(p), 0o700))
		},
		"a link": func(_ *testing.T, p place) error {
			return errors.Join(os.Remove(path(p)), os.Symlink("/etc/passwd", path(p)))
		},
		"a FIFO": func(t *testing.T, p place) error {
			return errors.Join(os.Remove(path(p)), mkfifo(path(p)))
		},
		"without newlines": func(_ *testing.T, p place) error {
			return os.WriteFile(path(p), bytes.Repeat([]byte("x"), len(data)), 0o600)
		},
	} {
		t.Run(title, func(t *testing.T) {
			p := newPlace(t)
			l := p.create(t, 1<<30)
			l.Write([]byte(data))
			l.Close()
			if err := tamper(t, p); err != nil {
				t.Fatal(err)
			}
			for _, w := range []spec.LogWindow{{}, {From: 49_000}, {From: -10, Follow: true}, {Offset: 200_000}, {From: 40_000, Lines: 3}} {
				got, info, err := all(t.Context(), l, w)
				if len(got) > len(data) || info.Offset > info.Bytes || info.FirstLine > info.Lines+1 {
					t.Errorf("%+v: %d bytes, %+v", w, len(got), info)
				}
				if err != nil && spec.CodeOf(err) == "" {
					t.Errorf("%+v: %v", w, err)
				}
			}
		})
	}
	t.Run("longer than it can be", func(t *testing.T) {
		p := newPlace(t)
		l := p.create(t, 1000)
		l.Write([]byte("abc\n"))
		l.Close()
		if err := os.Truncate(path(p), 1<<40); err != nil {
			t.Fatal(err)
		}
		if _, err := joblog.Open(t.Context(), p.fd, name, 1000); err == nil {
			t.Error("it is opened")
		}
	})
}

// A full disk stops the log and not its writer.
func TestFullDisk(t *testing.T) {
	p := newPlace(t)
	if err := os.Symlink("/dev/full", filepath.Join(p.dir, "full")); err != nil {
		t.Fatal(err)
	}
	l := joblog.OnFile(t, p.fd, filepath.Join(p.dir, "full"))
	if n, err := l.Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if s := l.Stats(); s.Bytes != 0 || s.Omitted != 3 {
		t.Errorf("%+v", s)
	}
}

// Windows of random logs written in random pieces agree with the model.
func FuzzLog(f *testing.F) {
	f.Add(uint64(1), int64(1), int64(1), int64(0), int64(0))
	f.Add(uint64(2), int64(-3), int64(2), int64(0), int64(70))
	f.Add(uint64(3), int64(0), int64(0), int64(65536), int64(0))
	f.Fuzz(func(t *testing.T, seed uint64, from, lines, offset, most int64) {
		w := spec.LogWindow{From: from, Lines: lines, Offset: offset, MaxBytes: most}
		if w.Validate() != nil {
			t.Skip()
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, rng.IntN(300_000))
		every := 1 + rng.IntN(1<<rng.IntN(17))
		for i := range data {
			if data[i] = 'x'; rng.IntN(every) == 0 {
				data[i] = '\n'
			}
		}
		p := newPlace(t)
		l := p.create(t, 1<<30)
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(100_000))
			l.Write(rest[:n])
			rest = rest[n:]
		}
		check(t, l, string(data), w)
		l.Close()
		check(t, l, string(data), w)
		check(t, p.open(t, 1<<30), string(data), w)
	})
}

// FuzzOpen: whatever lies there as log and index is a log or an error.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte{1, 0, 0, 0, 0, 0, 0, 0})
	f.Add(bytes.Repeat([]byte("\n"), 2*joblog.BlockBytes), []byte{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data, index []byte) {
		p := newPlace(t)
		for file, content := range map[string][]byte{name: data, joblog.IndexName(name): index} {
			if err := os.WriteFile(filepath.Join(p.dir, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, err := joblog.Open(t.Context(), p.fd, name, 1<<20)
		if err != nil {
			return
		}
		for _, w := range []spec.LogWindow{{}, {From: 2, Lines: 2}, {From: -2, Follow: true}, {Offset: 3}} {
			got, info, err := all(t.Context(), l, w)
			if err == nil && (len(got) > len(data) || info.Offset > info.Bytes || info.FirstLine > info.Lines+1) {
				t.Errorf("%+v: %d of %d bytes, %+v", w, len(got), len(data), info)
			}
		}
	})
}

// BenchmarkWrite is what the log costs its command.
func BenchmarkWrite(b *testing.B) {
	l := newPlace(b).create(b, 64<<30)
	chunk := []byte(strings.Repeat("a line of a usual length, more or less\n", 1700))[:64<<10]
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if l.Stats().Bytes > 1<<30 {
			b.StopTimer()
			l = newPlace(b).create(b, 64<<30)
			b.StartTimer()
		}
		l.Write(chunk)
	}
}

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }
