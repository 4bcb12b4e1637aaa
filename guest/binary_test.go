//go:build linux

package guest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/guest"
	"github.com/berth-dev/berth/spec"
)

// A platform without a guest is refused, and the refusal says what there is.
func TestBinaryOfAnotherPlatform(t *testing.T) {
	for _, p := range [][2]string{{"plan9", "amd64"}, {"darwin", "arm64"}, {"linux", "riscv64"}, {"", ""}} {
		_, err := guest.Binary(context.Background(), p[0], p[1], guest.BinaryOptions{Path: os.Args[0], AllowSelf: true})
		wantCode(t, err, spec.CodeUnsupported)
		if spec.HintOf(err) == "" {
			t.Errorf("%v: no hint for %v", err, p)
		}
	}
}

// A path that is named is taken, or is the error; nothing else is tried.
func TestBinaryThatIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "g")
	if err := os.WriteFile(path, []byte("abc"), 0o755); err != nil {
		t.Fatal(err)
	}
	bin, err := guest.Binary(context.Background(), "linux", "arm64", guest.BinaryOptions{Path: path, AllowSelf: true})
	want := guest.Bin{Path: path, Size: 3, Hash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
	if diff := cmp.Diff(want, bin); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, p := range []string{dir, filepath.Join(dir, "missing")} {
		_, err := guest.Binary(context.Background(), "linux", "arm64", guest.BinaryOptions{Path: p, AllowSelf: true})
		wantCode(t, err, spec.CodeUnavailable)
	}
}

// The running program is taken where it is allowed and of the platform, and only
// because its main has said that it can be.
func TestBinaryIsTheProgram(t *testing.T) {
	bin, err := guest.Binary(context.Background(), "linux", runtime.GOARCH, guest.BinaryOptions{AllowSelf: true, CacheDir: "/dev/null/no"})
	if err != nil {
		t.Fatal(err)
	}
	self, _ := os.Executable()
	if bin.Path != self || !slices.Equal(bin.Args, []string{"berth-guest-reexec"}) {
		t.Errorf("%+v", bin)
	}
}

// A cache directory that cannot be used is an error with a way out, not a panic.
func TestUnusableCache(t *testing.T) {
	_, err := guest.Binary(context.Background(), "linux", "amd64", guest.BinaryOptions{CacheDir: "/dev/null/no"})
	wantCode(t, err, spec.CodeUnavailable)
	if !strings.Contains(spec.HintOf(err), "BinaryOptions.CacheDir") {
		t.Errorf("hint %q", spec.HintOf(err))
	}
}

// The binary is built once for all who ask at the same time, is static and runs, is
// taken from the cache afterwards, and is built again when the cache was tampered
// with.
func TestBinaryIsBuiltOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds")
	}
	dir := t.TempDir()
	var mu sync.Mutex
	builds := 0
	o := guest.BinaryOptions{CacheDir: dir, Progress: func(p spec.Progress) {
		mu.Lock()
		defer mu.Unlock()
		builds++
	}}
	var wg sync.WaitGroup
	bins := make([]guest.Bin, 4)
	for i := range bins {
		wg.Go(func() {
			var err error
			if bins[i], err = guest.Binary(context.Background(), "linux", runtime.GOARCH, o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if builds != 1 || bins[0].Path == "" || !slices.EqualFunc(bins[1:], bins[:3], func(a, b guest.Bin) bool { return a.Hash == b.Hash }) {
		t.Fatalf("%d builds: %+v", builds, bins)
	}
	if out, err := exec.Command(bins[0].Path, "version").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if bins[0].Size > 6<<20 { // see the decisions in ARCHITECTURE.md
		t.Errorf("the guest has %d bytes", bins[0].Size)
	}

	f, err := os.OpenFile(bins[0].Path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("tampered")
	f.Close()
	again, err := guest.Binary(context.Background(), "linux", runtime.GOARCH, o)
	if err != nil || builds != 2 || again.Hash != bins[0].Hash {
		t.Errorf("%d builds, %+v, %v", builds, again, err)
	}
}

// A build ends with its caller's ctx and leaves nothing in the cache.
func TestBuildIsCancelled(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	begin := time.Time{}
	_, err := guest.Binary(ctx, "linux", "arm64", guest.BinaryOptions{CacheDir: dir, Progress: func(spec.Progress) { begin = time.Now(); cancel() }})
	if !errors.Is(err, context.Canceled) || begin.IsZero() {
		t.Fatalf("%v", err)
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "guest"))
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// A user's program in a module of its own finds or builds a guest, runs a command in
// it, and gets an error where there is no guest.
func TestFromAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(goMod), "module github.com/berth-dev/berth\n", "module example.com/user\n", 1)
	if i := strings.Index(text, "\ntool"); i >= 0 {
		text = text[:i]
	}
	text += "\nrequire github.com/berth-dev/berth v0.0.0\nreplace github.com/berth-dev/berth => " + root + "\n"
	goSum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join("testdata", "user.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"go.mod": []byte(text), "go.sum": goSum, "main.go": program} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", ".", filepath.Join(dir, "cache"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if want := "hello from a guest\nplan9: unsupported\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q\n%s", err, out, stderr.String())
	}
}
