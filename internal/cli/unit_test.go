package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/internal/cli/verb"
	"github.com/berth-dev/berth/spec"
)

// capture keeps head and tail whatever the sizes of the writes are.
func TestCapture(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		limit, total := rng.IntN(20), rng.IntN(60)
		data := make([]byte, total)
		for i := range data {
			data[i] = byte(i)
		}
		c := &capture{limit: limit}
		for rest := data; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			if m, err := c.Write(rest[:n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		want, omitted := data, 0
		if total > limit {
			want = append(data[:limit-limit/2:limit-limit/2], data[total-limit/2:]...)
			omitted = total - limit
		}
		if got, n := c.bytes(); !bytes.Equal(got, want) || n != int64(omitted) {
			t.Fatalf("limit %d, total %d: kept %v, omitted %d, want %v, %d", limit, total, got, n, want, omitted)
		}
	}
}

// The exit status is derived from the code table, but for the verbs that pass a
// command's own through.
func TestExitStatus(t *testing.T) {
	pass := &cobra.Command{Annotations: map[string]string{verb.PassThrough: "yes"}}
	plain := &cobra.Command{}
	start := func(cause error) error { return &spec.Error{Code: spec.CodeStartFailed, Err: cause} }
	for _, test := range []struct {
		cmd  *cobra.Command
		err  error
		want int
	}{
		{plain, nil, 0},
		{plain, verb.Status(7), 7},
		{pass, verb.Status(7), 7},
		{plain, spec.ErrNotFound, 70}, // a sentinel alone is no *Error
		{plain, spec.New(spec.CodeNotFound, "x"), 4},
		{pass, spec.New(spec.CodeNotFound, "x"), 125},
		{plain, verb.Usage("x"), 2},
		{pass, verb.Usage("x"), 125},
		{pass, start(fs.ErrNotExist), 127},
		{pass, start(fs.ErrPermission), 126},
		{pass, start(errors.New("exec format error")), 126},
		{plain, start(fs.ErrNotExist), 127},
		{pass, &interrupted{2}, 130},
		{plain, &interrupted{15}, 143},
		{plain, fmt.Errorf("wrapped: %w", spec.New(spec.CodeUnavailable, "x")), 18},
	} {
		a := &app{}
		a.Stdout, a.Stderr = &bytes.Buffer{}, &bytes.Buffer{}
		if got := a.finish(test.cmd, test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
}

// Every verb's help has examples and ends with its exit status.
func TestHelp(t *testing.T) {
	var all []*cobra.Command
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			collect(sub)
		}
	}
	collect(newRoot(&app{}))
	for _, cmd := range all {
		if cmd.Hidden || cmd.IsAdditionalHelpTopicCommand() {
			continue
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		at := strings.Index(text, "\nEXIT STATUS\n")
		if at < 0 || strings.Contains(text[at+1:], "\n\n") {
			t.Errorf("%s: the help does not end with EXIT STATUS:\n%s", cmd.Name(), text)
		}
		if cmd.Example == "" || cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s: the help is not complete", cmd.Name())
		}
		for line := range strings.Lines(text) {
			if len(line) > 101 {
				t.Errorf("%s: a line of %d bytes: %s", cmd.Name(), len(line), line)
			}
		}
	}
}

// recording is a command that signals are passed to.
type recording struct {
	mu    sync.Mutex
	calls []string
}

func (r *recording) Signal(_ context.Context, s spec.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(int(s)))
	return nil
}

func (r *recording) Kill(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, "kill")
	return nil
}

// Interrupts are forwarded each time; the third within two seconds kills, and one
// after that gives up. Without a command a signal ends what is being done.
func TestInterrupts(t *testing.T) {
	start := time.Now()
	for _, test := range []struct {
		name    string
		at      []time.Duration
		want    string
		givenUp bool
	}{
		{"slow", []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second}, "2 2 2 2", false},
		{"two", []time.Duration{0, time.Second}, "2 2", false},
		{"three", []time.Duration{0, time.Second, 1900 * time.Millisecond}, "2 2 kill", false},
		{"four", []time.Duration{0, 1, 2, 3}, "2 2 kill", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			s, r := &signals{cancel: cancel}, &recording{}
			s.forwardTo(r)
			for _, at := range test.at {
				s.handle(spec.SIGINT, start.Add(at))
			}
			if got := strings.Join(r.calls, " "); got != test.want {
				t.Errorf("the command got %q, want %q", got, test.want)
			}
			if (ctx.Err() != nil) != test.givenUp {
				t.Errorf("given up: %v", ctx.Err() != nil)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s, r := &signals{cancel: cancel}, &recording{}
	// What comes while a command starts is its own; a second one ends the start.
	s.hold()
	s.handle(spec.SIGHUP, start)
	s.forwardTo(r)
	if got := strings.Join(r.calls, " "); got != "1" || ctx.Err() != nil {
		t.Errorf("the command got %q, want the signal that was held", got)
	}
	s.forwardTo(nil)
	s.hold()
	s.handle(spec.SIGHUP, start)
	s.handle(spec.SIGTERM, start)
	var i *interrupted
	if !errors.As(context.Cause(ctx), &i) || i.signal != spec.SIGTERM {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

// passThrough reports the first failure once and takes everything after it.
func TestPassThrough(t *testing.T) {
	failed := 0
	p := &passThrough{w: brokenWriter{}, failed: func() { failed++ }}
	for range 3 {
		if n, err := p.Write([]byte("abc")); n != 3 || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	if failed != 1 || !errors.Is(p.err, fs.ErrClosed) {
		t.Errorf("failed %d times with %v", failed, p.err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fs.ErrClosed }
