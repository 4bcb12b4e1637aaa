package filestest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/spec"
)

// Where an FS makes links and FIFOs itself.
type (
	symlinker interface {
		Symlink(target, name string) error
	}
	fifoMaker interface{ Mkfifo(name string) error }
)

func needLinks(_ context.Context, e Env) string {
	_, own := e.FS.(symlinker)
	if _, ok := e.FS.(files.Symlinker); ok || own || e.Shell != nil {
		return ""
	}
	return "a way to make a symbolic link"
}

func needFIFO(_ context.Context, e Env) string {
	if _, ok := e.FS.(fifoMaker); ok || e.Shell != nil {
		return ""
	}
	return "a way to make a FIFO"
}

// needDevice wants a device that every Linux place has.
func needDevice(ctx context.Context, e Env) string {
	info, err := e.FS.Stat(ctx, "/dev/null", files.StatOptions{})
	if err != nil || info.Mode&fs.ModeCharDevice == 0 {
		return "the device /dev/null"
	}
	return ""
}

// needMount wants a file that something is mounted on, as engines do with this one.
func needMount(ctx context.Context, e Env) string {
	mounts, err := files.ReadFile(ctx, e.FS, "/proc/self/mountinfo", 0)
	if err != nil || !bytes.Contains(mounts, []byte(" "+mountPoint+" ")) {
		return "a mount point at " + mountPoint
	}
	return ""
}

const mountPoint = "/etc/hosts"

// path returns the absolute name of something in the case's directory.
func (e Env) path(name string) string { return e.Dir + "/" + name }

// quote makes s one word of a shell script.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (e Env) symlink(ctx context.Context, t T, target, name string) {
	t.Helper()
	var err error
	switch l, ok := e.FS.(symlinker); {
	case ok:
		err = l.Symlink(target, name)
	case e.Shell != nil:
		_, err = e.Shell(ctx, "ln -s -- "+quote(target)+" "+quote(name))
	default:
		err = files.MakeSymlink(ctx, e.FS, target, name, files.SymlinkOptions{})
	}
	if err != nil {
		t.Fatalf("symlink %q -> %q: %v", name, target, err)
	}
}

func (e Env) mkfifo(ctx context.Context, t T, name string) {
	t.Helper()
	var err error
	if m, ok := e.FS.(fifoMaker); ok {
		err = m.Mkfifo(name)
	} else {
		_, err = e.Shell(ctx, "mkfifo -- "+quote(name))
	}
	if err != nil {
		t.Fatalf("mkfifo %q: %v", name, err)
	}
}

// write makes name a file with content.
func (e Env) write(ctx context.Context, t T, name, content string) {
	t.Helper()
	e.writeMode(ctx, t, name, content, files.WriteOptions{})
}

func (e Env) writeMode(ctx context.Context, t T, name, content string, o files.WriteOptions) {
	t.Helper()
	if err := files.WriteFile(ctx, e.FS, name, []byte(content), o); err != nil {
		t.Fatalf("write %.80q: %v", name, err)
	}
}

func (e Env) mkdir(ctx context.Context, t T, name string) {
	t.Helper()
	if err := e.FS.Mkdir(ctx, name, files.MkdirOptions{Parents: true}); err != nil {
		t.Fatalf("mkdir %.80q: %v", name, err)
	}
}

// stat describes name itself.
func (e Env) stat(ctx context.Context, t T, name string) files.Info {
	t.Helper()
	info, err := e.FS.Stat(ctx, name, files.StatOptions{})
	if err != nil {
		t.Fatalf("stat %.80q: %v", name, err)
	}
	return info
}

// holds checks that name is a file with exactly this content.
func (e Env) holds(ctx context.Context, t T, name, want string) {
	t.Helper()
	got, err := files.ReadFile(ctx, e.FS, name, int64(len(want))+1<<20)
	if err != nil {
		t.Errorf("read %.80q: %v", name, err)
	} else if string(got) != want {
		t.Errorf("%.80q holds %d bytes %.60q, want %d bytes %.60q", name, len(got), got, len(want), want)
	}
}

// absent checks that there is nothing under name, not even a dangling link.
func (e Env) absent(ctx context.Context, t T, name string) {
	t.Helper()
	_, err := e.FS.Stat(ctx, name, files.StatOptions{})
	wantCode(t, "stat of what must not exist", err, spec.CodeFileNotFound)
}

// contains checks the names in dir: exactly these, so no temporary file either. What
// a cancelled call leaves may go a moment later than the call returns.
func (e Env) contains(ctx context.Context, t T, dir string, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	for range 100 {
		infos, err := files.ReadDir(ctx, e.FS, dir, 0)
		if err != nil {
			t.Errorf("list %.80q: %v", dir, err)
			return
		}
		got = nil
		for _, info := range infos {
			got = append(got, info.Name)
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%.80q contains %.20q, want %.20q", dir, got, want)
}

// open opens name and returns what Open answers; an open file is closed again.
func (e Env) open(ctx context.Context, name string, o files.OpenOptions) error {
	f, err := e.FS.Open(ctx, name, o)
	if err != nil {
		return err
	}
	return f.Close()
}

// read reads what o says of name.
func (e Env) read(ctx context.Context, t T, name string, o files.OpenOptions) string {
	t.Helper()
	f, err := e.FS.Open(ctx, name, o)
	if err != nil {
		t.Fatalf("open %.80q: %v", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatalf("read %.80q: %v", name, err)
	}
	return string(data)
}

// writeString writes content and returns what Write answers.
func (e Env) writeString(ctx context.Context, name, content string, o files.WriteOptions) error {
	return e.FS.Write(ctx, name, strings.NewReader(content), int64(len(content)), o)
}

// wantCode checks that err is an *spec.Error with the code.
func wantCode(t T, what string, err error, want spec.Code) {
	t.Helper()
	var e *spec.Error
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %s", what, want)
	case !errors.As(err, &e):
		t.Errorf("%s: a %T (%v), want an *spec.Error with code %s", what, err, err, want)
	case e.Code != want:
		t.Errorf("%s: code %s (%v), want %s", what, e.Code, err, want)
	}
}

// noise returns n bytes without a period, the same for the same seed.
func noise(n int, seed uint64) string {
	out := make([]byte, n)
	x := seed*2862933555777941757 + 3037000493
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		out[i] = byte(x >> 56)
	}
	return string(out)
}

// noResidue checks that a write has left no temporary file in a directory that is
// not the case's own.
func (e Env) noResidue(ctx context.Context, t T, dir string) {
	t.Helper()
	for info, err := range e.FS.List(ctx, dir) {
		if err != nil {
			t.Errorf("list %q: %v", dir, err)
			return
		}
		if strings.HasPrefix(info.Name, ".berth-") {
			t.Errorf("%q holds %q", dir, info.Name)
		}
	}
}
