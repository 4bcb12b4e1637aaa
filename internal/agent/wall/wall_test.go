//go:build linux

package wall

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/internal/wire"
)

// parsed is the wall of a place whose guest got args.
func parsed(t *testing.T, args ...string) *Wall {
	t.Helper()
	var c Config
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	c.Flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return c.Wall()
}

func watching(t *testing.T, paths ...string) *Wall {
	t.Helper()
	var args []string
	for _, path := range paths {
		args = append(args, "--absent", path)
	}
	return parsed(t, args...)
}

// told is what the exit of a command that succeeds says, as text below base.
func told(w *Wall, base string) []string {
	var e wire.Exit
	w.Tell(&e, func() []byte { panic("asked for the output of a command that succeeded") })
	var out []string
	for _, path := range e.HostExecutable {
		out = append(out, strings.TrimPrefix(string(path), base+"/"))
	}
	return out
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func touch(path ...string) error {
	return os.WriteFile(filepath.Join(path...), nil, 0o600)
}

// TestAppeared defends: what did not exist is told once when it does, by the command that
// ends next: a file, a directory, a link to nowhere, a file in a directory that is made
// with it; what is removed again is told no more, and what existed at the start never.
func TestAppeared(t *testing.T) {
	base := t.TempDir()
	must(t, touch(base, "there"), os.Mkdir(filepath.Join(base, "hooks"), 0o700))
	var paths []string
	for _, name := range []string{"there", "hooks/a", "hooks/b", "link", ".vscode", ".vscode/x", ".vscode/y", "there/below"} {
		paths = append(paths, filepath.Join(base, name))
	}
	w := watching(t, paths...)
	steps := []struct {
		do   func() error
		want []string
	}{
		{func() error { return nil }, nil},
		{func() error { return touch(base, "hooks/b") }, []string{"hooks/b"}},
		{func() error { return os.Symlink("/nowhere", filepath.Join(base, "link")) }, []string{"link"}},
		{func() error { return os.Remove(filepath.Join(base, "link")) }, nil},
		{func() error { return os.Symlink("/nowhere", filepath.Join(base, "link")) }, nil},
		{func() error {
			return errors.Join(os.Mkdir(filepath.Join(base, ".vscode"), 0o700), touch(base, ".vscode/y"))
		}, []string{".vscode", ".vscode/y"}},
		{func() error { return touch(base, ".vscode/x") }, []string{".vscode/x"}},
	}
	for i, step := range steps {
		must(t, step.do())
		got := told(w, base)
		slices.Sort(got)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
		if again := told(w, base); again != nil {
			t.Errorf("step %d: told again: %q", i, again)
		}
	}
}

// TestSettled defends: a directory that has not changed for so long that any change shows
// is not looked through, and what is then made in it, below it or in its place is told.
func TestSettled(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "dir")
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	var paths []string
	for _, name := range []string{"a", "b", "new/x", "sub/c", "sub/d"} {
		paths = append(paths, filepath.Join(dir, name))
	}
	w := watching(t, paths...)
	settle := func() {
		t.Helper()
		time.Sleep(settling + settling/10)
		for range 2 {
			if got := told(w, base); got != nil {
				t.Fatalf("told: %q", got)
			}
		}
		for _, n := range w.made.tops {
			if n.there && (n.state == state{}) {
				t.Fatalf("%s does not settle", n.path)
			}
		}
	}
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return touch(dir, "a") }, []string{"dir/a"}},
		{func() error { return touch(dir, "sub", "c") }, []string{"dir/sub/c"}},
		{func() error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "new"), 0o700), touch(dir, "new", "x"))
		}, []string{"dir/new/x"}},
		{func() error { // another directory in its place, made before
			other := filepath.Join(base, "other")
			return errors.Join(os.Mkdir(other, 0o700), touch(other, "d"), os.Rename(filepath.Join(dir, "sub"), filepath.Join(base, "old")), os.Rename(other, filepath.Join(dir, "sub")))
		}, []string{"dir/sub/d"}},
	} {
		settle()
		must(t, step.do())
		if diff := cmp.Diff(step.want, told(w, base)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestClosed defends: what a command has closed to its own user counts as made, for it
// may be open to others.
func TestClosed(t *testing.T) {
	base := t.TempDir()
	loop := filepath.Join(base, "loop")
	w := watching(t, filepath.Join(loop, "x"), filepath.Join(loop, "y"))
	must(t, os.Symlink("loop", loop)) // for root, too, nothing can be seen in it
	if got := told(w, base); len(got) != 2 {
		t.Errorf("told: %q", got)
	}
}

// TestTellBounds defends: at most 64 paths and 16 KiB are told at a time, the rest with
// the next commands, and nothing is lost; the end of the place tells all.
func TestTellBounds(t *testing.T) {
	base := t.TempDir()
	var paths []string
	for i := range 200 {
		paths = append(paths, filepath.Join(base, fmt.Sprintf("%03d%s", i, strings.Repeat("x", i))))
	}
	w, ending := watching(t, paths...), watching(t, paths...)
	for _, path := range paths {
		must(t, touch(path))
	}
	if all, again := ending.Unsaid(), ending.Unsaid(); len(all) != len(paths) || len(again) > 0 {
		t.Errorf("at the end %d are told, then %d; want %d", len(all), len(again), len(paths))
	}
	if got := (*Wall)(nil).Unsaid(); got != nil {
		t.Errorf("without a wall: %q", got)
	}
	var got []string
	for len(got) < len(paths) {
		some := told(w, "")
		size := 0
		for _, path := range some {
			size += len(path)
		}
		if len(some) == 0 || len(some) > 64 || size > 16<<10 {
			t.Fatalf("%d paths of %d bytes at a time, after %d", len(some), size, len(got))
		}
		got = append(got, some...)
	}
	slices.Sort(got)
	for i := range got {
		got[i] = "/" + strings.TrimPrefix(got[i], "/")
	}
	if diff := cmp.Diff(paths, got); diff != "" {
		t.Error(diff)
	}
}

// TestDenied defends: a command reads as refused only if it failed, in time, and said so
// in one of the kernel's ways; a place without a wall says nothing.
func TestDenied(t *testing.T) {
	walled := parsed(t, "--walled")
	for _, tc := range []struct {
		name string
		wall *Wall
		exit wire.Exit
		text string
		want bool
	}{
		{"sh", walled, wire.Exit{Code: 2}, "/bin/sh: 1: cannot create /etc/x: Read-only file system\n", true},
		{"touch", walled, wire.Exit{Code: 1}, "touch: cannot touch '/root/x': Permission denied", true},
		{"node", walled, wire.Exit{Code: 1}, "Error: EROFS: read-only file system, open '/etc/x'", true},
		{"go", walled, wire.Exit{Code: 1}, "open /etc/x: permission denied", true},
		{"python", walled, wire.Exit{Code: 1}, "PermissionError: [Errno 1] Operation not permitted: '/etc/x'", true},
		{"another error", walled, wire.Exit{Code: 1}, "No such file or directory", false},
		{"nothing said", walled, wire.Exit{Code: 1}, "", false},
		{"success", walled, wire.Exit{}, "Permission denied", false},
		{"timeout", walled, wire.Exit{Code: 143, TimedOut: true}, "Permission denied", false},
		{"no wall", parsed(t), wire.Exit{Code: 1}, "Permission denied", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.wall.Tell(&tc.exit, func() []byte { return []byte(tc.text) })
			if tc.exit.Denied != tc.want {
				t.Errorf("denied: %t", tc.exit.Denied)
			}
		})
	}
}

// TestFlags defends: a list is bounded, a path is absolute, and root is nobody to become.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--absent", "relative"},
		{"--own", ""},
		{"--mounted", "1:2:relative"},
		{"--mounted", "1:/path"},
		{"--mounted", "x:2:/path"},
		{"--drop", "0:1"},
		{"--drop", "1:0"},
		{"--drop", "-1:1"},
		{"--drop", "1"},
		{"--drop", "4294967295:1"},
		{"--drop", "root:root"},
		{"--git-index", "/index"},
		{"--git-index", "index:/w"},
		strings.Fields(strings.Repeat("--absent /x ", maxPaths+1)),
		strings.Fields(strings.Repeat("--git-index /x:/y ", maxIndexes+1)),
	} {
		var c Config
		f := flag.NewFlagSet("serve", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		c.Flags(f)
		if err := f.Parse(args); err == nil {
			t.Errorf("%.60q is accepted", args)
		}
	}
}

// BenchmarkTell is what every command pays for 300 absent names in 20 directories, half
// of which exist, when nothing has been made.
func BenchmarkTell(b *testing.B) {
	base := b.TempDir()
	w := &Wall{}
	var paths []string
	for d := range 20 {
		dir := filepath.Join(base, fmt.Sprint(d))
		if d%2 == 0 {
			_ = os.Mkdir(dir, 0o700)
		}
		for i := range 15 {
			paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		}
	}
	w.made.add(paths)
	w.Tell(&wire.Exit{}, nil)
	time.Sleep(settling + settling/10)
	w.Tell(&wire.Exit{}, nil)
	for b.Loop() {
		w.Tell(&wire.Exit{}, nil)
	}
}
