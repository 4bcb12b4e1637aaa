package fake_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/spec"
)

// typed types a text into a terminal and returns what is shown until nothing more happens.
func typed(t *testing.T, term *berth.Terminal, shown *strings.Builder, text string) string {
	t.Helper()
	if _, err := term.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	defer shown.Reset()
	return shown.String()
}

// follow copies what a terminal shows; the channel gives why it has ended.
func follow(term *berth.Terminal) (shown *strings.Builder, over <-chan error) {
	shown = &strings.Builder{}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(shown, term)
		ended <- err
	}()
	return shown, ended
}

// A person can work at the fake's shell: it asks, goes on after an error and after ^C, and
// ends with ^D.
func TestShellForPeople(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{}, func(t *testing.T, _ *fake.Driver, sb *berth.Sandbox) {
		term, err := sb.OpenTerminal(t.Context(), berth.TerminalOptions{Env: map[string]string{"PS2": "more "}})
		if err != nil {
			t.Fatal(err)
		}
		defer term.Detach()
		shown, over := follow(term)
		for _, step := range []struct{ keys, want string }{
			{"", "# "},
			{"x=1; if true\r", "x=1; if true\r\nmore "},
			{"then echo in; fi\r", "then echo in; fi\r\nin\r\n# "},
			{"echo )\n", "echo )\r\n-sh: Syntax error: 1:6: a command can only contain words and redirects; encountered `)`\r\n# "},
			{"while :; do sleep 1; done; echo no\n", "while :; do sleep 1; done; echo no\r\n"},
			{"\x03", "^C\r\n# "},
			{"echo $? $x", "echo $? $x"},
			{"\n", "\r\n130 1\r\n# "},
			{"never\x03", "never^C\r\n# "},
			{"ab\x15ec\x7fcho ü\x7fu\n", "ab\b \b\b \bec\b \bcho ü\b \bu\r\nu\r\n# "},
			{"\x1a\x08kill -TERM $$; tty\n", "^Zkill -TERM $$; tty\r\n/dev/tty\r\n# "},
			{"s=$(stty -g); stty raw -echo; read y; stty $s; echo $y\n", "s=$(stty -g); stty raw -echo; read y; stty $s; echo $y\r\n"},
			{"\x03\x04\x7f\n", "\x03\x04\x7f\r\n# "},
			{"stty\n", "stty\r\nrows 24; columns 80;\r\necho icanon isig icrnl onlcr\r\n# "},
			{"\x04", ""},
		} {
			if got := typed(t, term, shown, step.keys); got != step.want {
				t.Errorf("%q shows %q; want %q", step.keys, got, step.want)
			}
		}
		if err := <-over; err != nil {
			t.Errorf("the view ends with %v", err)
		}
	})
}

// Stopping a place hangs its terminals up: a shell that heeds no TERM ends at once, and what
// it showed stays.
func TestTerminalsOfAStoppedPlace(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		term, err := sb.OpenTerminal(t.Context(), berth.TerminalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, over := follow(term)
		began := time.Now()
		if err := d.Stop(t.Context(), "k", berth.ReapOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err != nil || time.Since(began) > time.Second {
			t.Errorf("the view ends with %v after %v", err, time.Since(began))
		}
		again, err := berth.Provision(t.Context(), d, berth.Spec{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := again.Terminals(t.Context())
		if err != nil || len(list) != 1 || list[0].Exit.Signal != int(spec.SIGHUP) {
			t.Errorf("%+v, %v", list, err)
		}
		if err := again.Detach(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// After a crash nobody knows how a terminal ended; no answer that was lost leaves a viewer
// for whom the program would wait.
func TestFaultsOfTerminals(t *testing.T) {
	bubble(t, fake.Options{}, berth.Spec{Key: "k"}, func(t *testing.T, d *fake.Driver, sb *berth.Sandbox) {
		d.Inject(fake.Fault{Op: fake.OpTerminalOpen, Lost: true})
		flood := berth.TerminalOptions{Args: berth.Shell("head -c 2000000 /dev/zero; sleep 1")}
		if _, err := sb.OpenTerminal(t.Context(), flood); spec.CodeOf(err) != spec.CodeUnknownOutcome {
			t.Errorf("open: %v", err)
		}
		time.Sleep(2 * time.Second)
		list, err := sb.Terminals(t.Context())
		if err != nil || len(list) != 1 || list[0].Running() || list[0].Viewers != 0 || list[0].OutputBytes != 2_000_000 {
			t.Errorf("%+v, %v", list, err)
		}
		flood.Args = berth.Shell("yes")
		term, err := sb.OpenTerminal(t.Context(), flood) // it waits for this one
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := d.Crash("k", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := term.Wait(t.Context()); spec.CodeOf(err) != spec.CodeUnknownOutcome {
			t.Errorf("wait: %v", err)
		}
		_, over := follow(term)
		if err := <-over; spec.CodeOf(err) != spec.CodeUnknownOutcome {
			t.Errorf("the view ends with %v", err)
		}
		if _, err := berth.Provision(context.WithoutCancel(t.Context()), d, berth.Spec{Key: "k"}); err != nil {
			t.Error(err)
		}
	})
}
