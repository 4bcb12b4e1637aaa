package drivertest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every case has a name of its own and quotes a rule.
func TestCasesAreComplete(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)
	seen := map[string]bool{}
	for _, c := range Cases() {
		if !word.MatchString(c.Name) || seen[c.Name] {
			t.Errorf("case %q: its name is no single word, or taken", c.Name)
		}
		seen[c.Name] = true
		if c.Run == nil || len(c.Rule) < 20 || !strings.HasSuffix(c.Rule, ".") {
			t.Errorf("case %s: rule %q", c.Name, c.Rule)
		}
	}
	if len(seen) < 45 {
		t.Errorf("%d cases", len(seen))
	}
}

// However a case ends, Check hears of it and goes on.
func TestOutcomes(t *testing.T) {
	c := &checker{suite: &suite{options: Options{Timeout: 50 * time.Millisecond}}}
	block := make(chan struct{})
	defer close(block)
	for name, try := range map[string]struct {
		run  func(T)
		want Outcome
		says string
	}{
		"passes":  {func(t T) { t.Logf("a note") }, Passed, "a note"},
		"errors":  {func(t T) { t.Errorf("wrong %d", 1); t.Errorf("wrong %d", 2) }, Failed, "wrong 1|wrong 2"},
		"fatal":   {func(t T) { t.Fatalf("no\n"); t.Errorf("not reached") }, Failed, "no"},
		"panics":  {func(T) { panic("oh") }, Failed, "panic: oh"},
		"skips":   {func(t T) { skip(t, "no device"); t.Errorf("not reached") }, Skipped, ""},
		"is hung": {func(T) { <-block }, Failed, "the case did not end after its time was up"},
	} {
		r := c.one(name, "The rule.", try.run)
		if r.Outcome != try.want || !strings.HasPrefix(strings.Join(r.Messages, "|"), try.says) || r.Rule != "The rule." {
			t.Errorf("a case that %s: %+v", name, r)
		}
	}
}

// A slow stream changes no byte, in either direction, with both in use at once.
func TestSlowStreamKeepsTheBytes(t *testing.T) {
	near, far := net.Pipe()
	slow := SlowStream(near)
	there, back := noise(300_000, 1), noise(200_000, 2)
	var all sync.WaitGroup
	check := func(what string, r io.Reader, want []byte) {
		defer all.Done()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, the bytes are the same: %v", what, err, bytes.Equal(got, want))
		}
	}
	send := func(w io.Writer, p []byte) {
		defer all.Done()
		if n, err := w.Write(p); n != len(p) || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	all.Add(4)
	go check("there", far, there)
	go check("back", slow, back)
	go send(slow, there)
	go send(far, back)
	all.Wait()
	if err := slow.Close(); err != nil {
		t.Error(err)
	}
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after close the other end reads %v", err)
	}
}

// A slow stream fragments: that is what it is for.
func TestSlowStreamFragments(t *testing.T) {
	var sizes []int
	slow := SlowStream(struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, writerFunc(func(p []byte) (int, error) { sizes = append(sizes, len(p)); return len(p), nil }), nil})
	if _, err := slow.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 10 || slices.Min(sizes) > 8 || slices.Max(sizes) < 4096 {
		t.Errorf("fragments of %v bytes", sizes)
	}
}

// told is a test that holds what it is told, and must not be told anything once it has ended.
type told struct {
	mu      sync.Mutex
	said    []string
	failed  bool
	skipped bool
	ended   bool
}

func (t *told) Helper() {}

func (t *told) say(failed bool, format string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		panic("a word after the end of the test")
	}
	t.failed = t.failed || failed
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

func (t *told) Logf(format string, args ...any)   { t.say(false, format, args) }
func (t *told) Errorf(format string, args ...any) { t.say(true, format, args) }
func (t *told) Fatalf(string, ...any)             { panic("in another goroutine than the test's") }
func (t *told) Skip(args ...any)                  { t.skipped = true; t.say(false, "%v", args) }

// TestRunGivesUp defends: under go test a case that does not end is a failure that says where
// it waits, whatever it still says is nobody's, and the others go on.
func TestRunGivesUp(t *testing.T) {
	s := &suite{options: Options{Timeout: 50 * time.Millisecond}}
	block, late := make(chan struct{}), make(chan struct{})
	for name, try := range map[string]struct {
		run             func(T)
		failed, skipped bool
		says            string
	}{
		"passes": {func(t T) { t.Logf("a note") }, false, false, "a note"},
		"errors": {func(t T) { t.Errorf("wrong %d", 1); t.Errorf("wrong %d", 2) }, true, false, "wrong 1|wrong 2"},
		"fatal":  {func(t T) { t.Fatalf("no"); t.Errorf("not reached") }, true, false, "no"},
		"panics": {func(T) { panic("oh") }, true, false, "panic: oh"},
		"skips":  {func(t T) { skip(t, "no device"); t.Errorf("not reached") }, false, true, "no device"},
		"is hung": {func(t T) {
			defer close(late)
			<-block
			t.Logf("too late")
			t.Errorf("too late")
			t.Fatalf("too late")
		}, true, false, "the case did not end after its time was up"},
	} {
		got := &told{}
		s.try(got, try.run)
		got.mu.Lock()
		got.ended = true
		all := strings.Join(got.said, "|")
		if got.failed != try.failed || got.skipped != try.skipped || !strings.HasPrefix(all, try.says) || strings.Contains(all, "reached") {
			t.Errorf("a case that %s: failed %v, skipped %v: %q", name, got.failed, got.skipped, all)
		}
		if name == "is hung" && !strings.Contains(all, "TestRunGivesUp") {
			t.Errorf("it does not say where it waits: %q", all)
		}
		got.mu.Unlock()
	}
	close(block)
	<-late
}
