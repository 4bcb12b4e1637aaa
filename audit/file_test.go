package audit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/audit"
	"github.com/berth-dev/berth/spec"
)

// appendTo has another writer put something at the end of a log.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTorn defends: a line that another writer has not ended takes no record with it, of a
// log that is opened after that nor of one that was open.
func TestTorn(t *testing.T) {
	log, path := open(t, audit.Options{})
	record := func(log *audit.Log, name string) {
		t.Helper()
		if err := log.Record(context.Background(), spec.AuditRecord{Kind: spec.AuditCommand, Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	const torn = `{"time":"2026-01-01T00:00:00Z","kind":"comm`
	record(log, "1")
	appendTo(t, path, torn)
	record(log, "2")
	appendTo(t, path, torn)
	next, err := audit.Open(path, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	record(next, "3")
	appendTo(t, path, "\n\r\n")
	record(log, "4")

	var got []string
	for l, err := range audit.Read(path) {
		if err != nil {
			got = append(got, string(spec.CodeOf(err)))
		} else {
			got = append(got, l.Name)
		}
	}
	if want := "1 invalid 2 invalid 3 4"; strings.Join(got, " ") != want {
		t.Errorf("the log has %q; want %s", got, want)
	}
}

// TestLongLine defends: a line that is too long is said to be there, wherever it is.
func TestLongLine(t *testing.T) {
	for name, end := range map[string]string{"with its end": "\n", "without": ""} {
		for _, size := range []int{audit.MaxLineBytes, audit.MaxLineBytes + 1, 3 * audit.MaxLineBytes} {
			log, path := open(t, audit.Options{})
			appendTo(t, path, strings.Repeat("x", size)+end)
			var errs int
			for _, err := range audit.Read(path) {
				if !errors.Is(err, spec.ErrInvalid) {
					t.Errorf("%s, %d bytes: %v", name, size, err)
				}
				errs++
			}
			if errs != 1 {
				t.Errorf("%s, %d bytes: %d errors", name, size, errs)
			}
			if err := log.Record(t.Context(), spec.AuditRecord{Name: "after"}); err != nil {
				t.Fatal(err)
			}
			var last audit.Line
			for l := range audit.Read(path) {
				last = l
			}
			if last.Name != "after" {
				t.Errorf("%s, %d bytes: what follows is %+v", name, size, last)
			}
		}
	}
}

// TestForeign defends: a file that others could have made, changed or named is neither
// written nor read, and none keeps a reader waiting.
func TestForeign(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights are no modes here")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name    string
		root    bool
		write   error
		read    error
		arrange func(dir, path string) error
	}{
		{name: "ours", arrange: func(_, _ string) error { return nil }},
		{name: "readable", write: spec.ErrPermission, arrange: func(_, path string) error { return os.Chmod(path, 0o644) }},
		{name: "writable", write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(_, path string) error { return os.Chmod(path, 0o620) }},
		{name: "two names", write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(dir, path string) error { return os.Link(path, filepath.Join(dir, "other")) }},
		{name: "another user's", root: true, write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(_, path string) error { return os.Chown(path, 1001, 1001) }},
		{name: "another user's directory", root: true, write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(dir, _ string) error { return os.Chown(dir, 1001, 1001) }},
		{name: "an open directory", write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(dir, _ string) error { return os.Chmod(dir, 0o777) }},
		{name: "a directory that is a link", write: spec.ErrPermission, read: spec.ErrPermission, arrange: func(dir, _ string) error {
			if err := os.Rename(dir, dir+".real"); err != nil {
				return err
			}
			return os.Symlink(dir+".real", dir)
		}},
		{name: "a link", write: spec.ErrNotRegular, read: spec.ErrNotRegular, arrange: func(dir, path string) error {
			if err := os.Rename(path, filepath.Join(dir, "real")); err != nil {
				return err
			}
			return os.Symlink("real", path)
		}},
		{name: "a pipe", write: spec.ErrNotRegular, read: spec.ErrNotRegular, arrange: func(_, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return exec.Command("mkfifo", "-m", "600", path).Run()
		}},
		{name: "a directory", write: spec.ErrNotRegular, read: spec.ErrNotRegular, arrange: func(_, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}},
		{name: "missing", read: spec.ErrFileNotFound, arrange: func(_, path string) error { return os.Remove(path) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.root && os.Geteuid() != 0 {
				t.Skip("only root gives a file away")
			}
			dir := filepath.Join(t.TempDir(), "logs")
			path := filepath.Join(dir, "log")
			must(os.Mkdir(dir, 0o700))
			must(os.WriteFile(path, nil, 0o600))
			must(tc.arrange(dir, path))
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				var err error
				for _, err = range audit.Read(path) {
				}
				if !errors.Is(err, tc.read) {
					t.Errorf("read: %v; want %v", err, tc.read)
				}
				log, err := audit.Open(path, audit.Options{})
				if !errors.Is(err, tc.write) {
					t.Errorf("open: %v; want %v", err, tc.write)
				}
				if err == nil {
					log.Close()
				}
			}()
			select {
			case <-answered:
			case <-time.After(time.Minute):
				t.Fatal("no answer")
			}
		})
	}
}
