package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/backend/fake"
	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// writerVariable names the log that this program, run again, writes to.
const writerVariable = "BERTH_TEST_AUDIT_LOG"

// lines is how many lines each writer writes.
const lines = 300

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		if err := write(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// write writes lines of many lengths, as several goroutines.
func write(path string) error {
	log, err := audit.Open(path, audit.Options{})
	if err != nil {
		return err
	}
	defer log.Close()
	const goroutines = 4
	errs := make(chan error, goroutines)
	for g := range goroutines {
		go func() {
			for i := range lines / goroutines {
				name := strconv.Itoa(g*lines + i)
				r := spec.AuditRecord{Kind: spec.AuditCommand, Name: name, Args: []string{strings.Repeat(name[:1], 100*i)}}
				if err := log.Record(context.Background(), r); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range goroutines {
		err = errors.Join(err, <-errs)
	}
	return err
}

func open(t *testing.T, o audit.Options) (*audit.Log, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "logs", "one.jsonl")
	log, err := audit.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log, path
}

func read(t *testing.T, path string) []audit.Line {
	t.Helper()
	var out []audit.Line
	for l, err := range audit.Read(path) {
		if err != nil {
			t.Errorf("read: %v", err)
			continue
		}
		out = append(out, l)
	}
	return out
}

// TestWriters defends: the lines of several processes and goroutines are whole, and none is
// lost.
func TestWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	const processes = 3
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerVariable+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	count := map[string]int{}
	for _, l := range read(t, path) {
		count[fmt.Sprintf("%d %s", l.WriterPID, l.Name)]++
	}
	for name, n := range count {
		if n != 1 {
			t.Errorf("%s comes %d times", name, n)
		}
	}
	if len(count) != processes*lines {
		t.Errorf("%d lines; want %d", len(count), processes*lines)
	}
}

// TestRedaction defends: no text of a line holds a secret, whole or the rest of one that
// overlaps another, in the forms that are promised.
func TestRedaction(t *testing.T) {
	secrets := []string{"hunter2", "hunter2000", "2000bottles", "p@ss/w rd?", "zz\xffzz", "aXaXa", "line one\n", ""}
	for _, tc := range []struct{ name, text, want string }{
		{"whole", "hunter2", "[redacted]"},
		{"inside", "--token=hunter2;x", "--token=[redacted];x"},
		{"the longer one", "a hunter2000 b", "a [redacted] b"},
		{"overlapping", "hunter2000bottles of", "[redacted] of"},
		{"touching", "hunter2hunter2x", "[redacted]x"},
		{"twice", "hunter2 hunter2", "[redacted] [redacted]"},
		{"over itself", "aXaXaXaXa-aXa", "[redacted]-aXa"},
		{"in a query", "q=p%40ss%2Fw+rd%3F", "q=[redacted]"},
		{"in a path", "/p@ss%2Fw%20rd%3F/", "/[redacted]/"},
		{"base64", "Basic aHVudGVyMg==", "Basic [redacted]=="},
		{"hexadecimal", "68756E74657232 68756e74657232", "[redacted] [redacted]"},
		{"without the white space around it", "say line one.", "say [redacted]."},
		{"not UTF-8", "a\xffzz\xffzz", "a\xff[redacted]"},
		{"none", "hunter 2", "hunter 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, path := open(t, audit.Options{Secrets: secrets})
			r := spec.AuditRecord{
				Args: []string{"x", tc.text}, Dir: tc.text, Env: []string{tc.text}, Path: tc.text, NewPath: tc.text, Err: errors.New(tc.text), Name: tc.text,
				ID: tc.text, Owner: tc.text, User: tc.text, Sandbox: tc.text, Key: spec.Key(tc.text), Exit: &spec.Exit{HostExecutable: []string{tc.text}},
			}
			if err := log.Record(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			l := read(t, path)[0]
			for i, got := range []string{l.Args[1], l.Dir, l.Path, l.NewPath} {
				if got != tc.want {
					t.Errorf("text %d is %q; want %q", i, got, tc.want)
				}
			}
			plain := strings.ToValidUTF8(tc.want, "\uFFFD") // of what has no exact form
			for i, got := range []string{l.Env[0], l.Err, l.Name, l.ID, l.Owner, l.User, l.Sandbox, string(l.Key), l.Exit.HostExecutable[0]} {
				if got != plain {
					t.Errorf("text %d is %q; want %q", i, got, plain)
				}
			}
		})
	}
	if _, err := audit.Open(filepath.Join(t.TempDir(), "x"), audit.Options{Secrets: []string{"abc"}}); !errors.Is(err, spec.ErrInvalid) || strings.Contains(err.Error(), "abc") {
		t.Errorf("a secret of three bytes: %v", err)
	}
}

// TestCut defends: a line has at most MaxLineBytes, whatever it says, and a secret at a cut
// is none.
func TestCut(t *testing.T) {
	secret := strings.Repeat("s3cret", 10)
	log, path := open(t, audit.Options{Secrets: []string{secret}})
	for _, args := range [][]string{
		{strings.Repeat("x", 1<<20)},
		make([]string, 100_000),
		{strings.Repeat("\x00\xff", 60_000)},
		{strings.Repeat(secret, 20_000)},
		{strings.Repeat("x", audit.MaxLineBytes-30) + secret},
	} {
		r := spec.AuditRecord{Kind: spec.AuditCommand, Name: "n", Args: args, Err: errors.New(strings.Repeat("\x01", 50_000))}
		if err := log.Record(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.SplitAfter(string(data), "\n") {
		if len(line) > audit.MaxLineBytes || strings.Contains(line, "s3cret") {
			t.Errorf("line %d has %d bytes", i, len(line))
		}
	}
	for _, l := range read(t, path) {
		if l.Name != "n" || !l.Cut {
			t.Errorf("a line says %q, cut %v", l.Name, l.Cut)
		}
	}
}

// TestFile defends: the log is its owner's alone, made where nobody else can write, and
// nothing else is written through its name.
func TestFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights are no modes here")
	}
	_, path := open(t, audit.Options{Sync: true})
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(target, nil, 0o600))
	must(os.Symlink(target, filepath.Join(dir, "link")))
	must(os.WriteFile(filepath.Join(dir, "wide"), nil, 0o600))
	must(os.Chmod(filepath.Join(dir, "wide"), 0o640))
	must(os.Mkdir(filepath.Join(dir, "open"), 0o700))
	must(os.Chmod(filepath.Join(dir, "open"), 0o777))
	for name, want := range map[string]error{"link": spec.ErrNotRegular, "wide": spec.ErrPermission, "open/log": spec.ErrPermission, ".": spec.ErrNotRegular} {
		if _, err := audit.Open(filepath.Join(dir, name), audit.Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
}

// place returns a sandbox of the fake whose log is at path.
func place(t *testing.T, o audit.Options) (sb *berth.Sandbox, log *audit.Log, path string) {
	t.Helper()
	log, path = open(t, o)
	sb, err := berth.Provision(t.Context(), fake.New(fake.Options{}), spec.Spec{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(context.Background()) })
	sb.Audit(log)
	return sb, log, path
}

// TestSandbox defends: what changes a place is recorded before it happens and after, with
// what was asked and what became of it, and nothing of an environment but its names.
func TestSandbox(t *testing.T) {
	ctx := t.Context()
	sb, _, path := place(t, audit.Options{Secrets: []string{"hunter2"}})
	if _, err := sb.Exec(ctx, berth.Shell("echo hunter2; exit 3"), berth.ExecOptions{Key: "c", Dir: "/tmp", Env: map[string]string{"TOKEN": "hunter2", "A": "value"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(ctx, []string{"/no/such"}, berth.ExecOptions{}); err == nil {
		t.Fatal("a missing program runs")
	}
	f := sb.Files()
	if err := f.WriteFile(ctx, "a\xff", []byte("content"), files.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Rename(ctx, "a\xff", "b", files.RenameOptions{}); err != nil {
		t.Fatal(err)
	}
	job, err := sb.Jobs("me").Start(ctx, []string{"sleep", "100"}, berth.JobOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Kill(ctx, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Terminate(ctx, "c", -1); err != nil {
		t.Fatal(err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	got := read(t, path)
	var short []string
	for i, l := range got {
		if l.Ended != (i%2 == 1) || l.Ended && l.Action != got[i-1].Action || l.Key != "k" || l.Backend != "fake" || l.Client == "" || l.WriterPID != os.Getpid() || time.Since(l.Time) > time.Hour {
			t.Errorf("line %d: %+v", i, l)
		}
		if l.Ended {
			text := string(l.Kind)
			if l.Exit != nil {
				text += fmt.Sprintf(" %d", l.Exit.Code)
			}
			if l.Err != "" {
				text += " failed"
			}
			short = append(short, text)
		}
	}
	want := []string{"command 3", "command failed", "file_write", "file_move", "job", "job_kill 137", "terminate", "destroy"}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Fatalf("what was done (-want +got):\n%s", diff)
	}
	first := audit.Line{Kind: spec.AuditCommand, Name: "c", Args: berth.Shell("echo [redacted]; exit 3"), Dir: "/tmp", Env: []string{"A", "TOKEN"}}
	if diff := cmp.Diff(first, got[0], cmpopts.IgnoreFields(audit.Line{}, "Time", "Action", "Client", "WriterPID", "Backend", "Sandbox", "Key")); diff != "" {
		t.Errorf("the command (-want +got):\n%s", diff)
	}
	if w := got[4]; w.Path != "a\xff" || w.PathB64 == "" {
		t.Errorf("the file: %+v", w)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), "hunter2") || strings.Contains(string(data), "value") || strings.Contains(string(data), "content") {
		t.Errorf("%v: the log holds a value: %s", err, data)
	}
}

// TestUnrecorded defends: what cannot be recorded is not done, and the end of a place is
// not held up by that.
func TestUnrecorded(t *testing.T) {
	ctx := t.Context()
	sb, log, _ := place(t, audit.Options{})
	log.Close()
	f := sb.Files()
	for what, do := range map[string]func() error{
		"exec": func() error {
			_, err := sb.Exec(ctx, berth.Shell("echo x >made"), berth.ExecOptions{})
			return err
		},
		"job": func() error {
			_, err := sb.Jobs("").Start(ctx, berth.Shell("echo x >made"), berth.JobOptions{})
			return err
		},
		"write": func() error { return f.WriteFile(ctx, "made", nil, files.WriteOptions{}) },
		"terminate": func() error {
			_, err := sb.Terminate(ctx, "x", -1)
			return err
		},
	} {
		if err := do(); !errors.Is(err, spec.ErrUnavailable) || !strings.Contains(err.Error(), "nothing was done") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := f.Stat(ctx, "made", files.StatOptions{}); !errors.Is(err, spec.ErrFileNotFound) {
		t.Errorf("the file: %v", err)
	}
	if err := sb.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestWaiting defends: the end of a command is recorded once, and no wait that gives up is
// one.
func TestWaiting(t *testing.T) {
	sb, _, path := place(t, audit.Options{})
	life, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := sb.Start(life, &berth.Command{Args: []string{"sleep", "100"}}, berth.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	short, giveUp := context.WithTimeout(t.Context(), time.Millisecond)
	defer giveUp()
	if _, err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a short wait: %v", err)
	}
	if got := read(t, path); len(got) != 1 {
		t.Errorf("while it runs: %+v", got)
	}
	cancel()
	for range 2 {
		if _, err := p.Wait(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
	}
	if got := read(t, path); len(got) != 2 || got[1].Err == "" {
		t.Errorf("after its end: %+v", got)
	}
}
