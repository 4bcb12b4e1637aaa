package localfs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/spec"
)

// named is a file of a batch with the given bytes.
func named(name, content string) files.BatchFile {
	return files.BatchFile{Name: name, Size: int64(len(content)), Src: strings.NewReader(content)}
}

func sequence(all ...files.BatchFile) iter.Seq2[files.BatchFile, error] {
	return func(yield func(files.BatchFile, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Many files in many directories land, whatever their names and sizes, with the mode
// of a new file or of the one that they replace.
func TestBatch(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	err := errors.Join(os.WriteFile(dir+"/script", []byte("old"), 0o751), os.WriteFile(dir+"/pointee", []byte("kept"), 0o600), os.Symlink("pointee", dir+"/link"))
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcdef", 60_000)
	long := strings.Repeat("n", 255)
	batch := []files.BatchFile{named("script", "new"), named("link", "new"), named("big", big), named("empty", ""), named("\xff\n", "bytes"), named("a/"+long, "long"), named("twice", "first"), named("twice", "second")}
	batch = append(batch, files.BatchFile{Name: "secret", Mode: 0o600, Size: 1, Src: strings.NewReader("x")}, files.BatchFile{Name: "nosource"})
	for i := range 1000 { // more directories than are kept open, and each twice
		batch = append(batch, named(fmt.Sprintf("many/%d/f", i%500), fmt.Sprint(i)))
	}
	before := openFiles(t)
	landed, err := fsys.WriteBatch(t.Context(), sequence(batch...), files.BatchOptions{Sync: true})
	if err != nil || landed != len(batch) {
		t.Fatalf("%d of %d landed, %v", landed, len(batch), err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
	got := snapshot(t, dir)
	for name, want := range map[string]string{
		"script": "-rwxr-x--x new", "link": "-rw-r--r-- new", "pointee": "-rw------- kept", "big": "-rw-r--r-- " + big, "empty": "-rw-r--r-- ", "\xff\n": "-rw-r--r-- bytes",
		"a": "drwxr-xr-x", "a/" + long: "-rw-r--r-- long", "twice": "-rw-r--r-- second", "secret": "-rw------- x", "nosource": "-rw-r--r-- ", "many/499/f": "-rw-r--r-- 999", "many/0/f": "-rw-r--r-- 500",
	} {
		if got[dir+"/"+name] != want {
			t.Errorf("%q is %.80q, want %.80q", name, got[dir+"/"+name], want)
		}
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if n, err := fsys.WriteBatch(t.Context(), sequence(), files.BatchOptions{}); n != 0 || err != nil {
		t.Errorf("an empty batch: %d, %v", n, err)
	}
}

// A batch whose contents do not all arrive, or that cannot be laid out, changes no
// file at all.
func TestBatchThatIsNotStaged(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		bad  files.BatchFile
		err  error // of next, instead
		want error
		path string
	}{
		{"short", files.BatchFile{Name: "s", Size: 3, Src: strings.NewReader("ab")}, nil, spec.ErrInvalid, "s"},
		{"long", files.BatchFile{Name: "s", Size: 1, Src: strings.NewReader("ab")}, nil, spec.ErrInvalid, "s"},
		{"long and empty", files.BatchFile{Name: "s", Size: 0, Src: strings.NewReader("ab")}, nil, spec.ErrInvalid, "s"},
		{"without a source", files.BatchFile{Name: "s", Size: 1}, nil, spec.ErrInvalid, "s"},
		{"negative", files.BatchFile{Name: "s", Size: -1, Src: strings.NewReader("")}, nil, spec.ErrInvalid, "s"},
		{"without a name", named("", "x"), nil, spec.ErrInvalidPath, ""},
		{"with NUL", named("a\x00b", "x"), nil, spec.ErrInvalidPath, "a\x00b"},
		{"too long a name", named("d/"+strings.Repeat("n", 256), "x"), nil, spec.ErrInvalidPath, "d/" + strings.Repeat("n", 256)},
		{"spelled as a directory", named("d/", "x"), nil, spec.ErrIsDirectory, "d/"},
		{"spelled as its own directory", named("d/.", "x"), nil, spec.ErrIsDirectory, "d/."},
		{"below a file", named("f/x", "x"), nil, spec.ErrNotDirectory, "f/x"},
		{"far below a file", named("f/x/y/z", "x"), nil, spec.ErrNotDirectory, "f/x/y/z"},
		{"below a dangling link", named("dangling/x", "x"), nil, spec.ErrNotDirectory, "dangling/x"},
		{"a source that fails", files.BatchFile{Name: "s", Size: 1, Src: failing{broken}}, nil, broken, "s"},
		{"a sequence that fails", files.BatchFile{}, broken, broken, ""},
		{"a sequence that fails with a code", files.BatchFile{}, spec.New(spec.CodeTooLarge, "much"), spec.ErrTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tempDir(t)
			if err := errors.Join(os.WriteFile(dir+"/f", []byte("kept"), 0o644), os.Mkdir(dir+"/d", 0o755), os.Symlink("nowhere", dir+"/dangling")); err != nil {
				t.Fatal(err)
			}
			landed, err := localfs.New(dir).WriteBatch(t.Context(), func(yield func(files.BatchFile, error) bool) {
				_ = yield(named("f", "new"), nil) && yield(named("d/new", strings.Repeat("x", 1<<20)), nil) && yield(tt.bad, tt.err) && yield(named("after", "x"), nil)
			}, files.BatchOptions{})
			var e *spec.Error
			if landed != 0 || !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Path != tt.path {
				t.Errorf("%d landed, %v", landed, err)
			}
			if got := snapshot(t, dir); got[dir+"/f"] != "-rw-r--r-- kept" || len(names(t, dir+"/d")) > 0 || len(leftovers(t, dir)) > 0 || len(got) != 4 {
				t.Errorf("it has left %q", got)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The first file that cannot be renamed into place ends the batch: those before have
// landed, those after have not.
func TestBatchStopsAtTheFirstFailure(t *testing.T) {
	dir := tempDir(t)
	if err := errors.Join(os.MkdirAll(dir+"/d/full", 0o755), syscall.Mkfifo(dir+"/fifo", 0o644), os.Symlink("d", dir+"/todir")); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]spec.Code{"d": spec.CodeIsDirectory, "todir": spec.CodeIsDirectory, "fifo": spec.CodeNotReplaceable} {
		landed, err := localfs.New(dir).WriteBatch(t.Context(), sequence(named("one", "1"), named(name, "2"), named("three", "3")), files.BatchOptions{})
		wantCode(t, name, err, code)
		var e *spec.Error
		if landed != 1 || !errors.As(err, &e) || e.Path != name {
			t.Errorf("%s: %d landed, %v", name, landed, err)
		}
		if got := snapshot(t, dir); got[dir+"/one"] == "" || got[dir+"/three"] != "" || len(leftovers(t, dir)) > 0 {
			t.Errorf("%s: it has left %q", name, got)
		}
		if err := os.Remove(dir + "/one"); err != nil {
			t.Fatal(err)
		}
	}
	// A file stands where a later one of the batch has made a directory.
	landed, err := localfs.New(dir).WriteBatch(t.Context(), sequence(named("x", "1"), named("x/y", "2")), files.BatchOptions{})
	wantCode(t, "a file over the directory of the next", err, spec.CodeIsDirectory)
	if landed != 0 || len(leftovers(t, dir)) > 0 {
		t.Errorf("%d landed; left %q", landed, leftovers(t, dir))
	}
}

// A disk that fills up while a batch is staged keeps what was there, and no temporary
// file.
func TestBatchWithoutSpace(t *testing.T) {
	needRoot(t)
	dir, inner := inside(t, "space", tempDir(t), &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	if !inner {
		return
	}
	privateMounts(t)
	mountTmpfs(t, dir, "size=1m,nr_inodes=100")
	fsys := localfs.New(dir)
	if err := os.WriteFile(dir+"/f", []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("x", 300<<10)
	_, err := fsys.WriteBatch(t.Context(), sequence(named("f", "new"), named("1", content), named("2", content), named("3", content), named("4", content)), files.BatchOptions{})
	wantCode(t, "more bytes than fit", err, spec.CodeNoSpace)
	var many []files.BatchFile
	for i := range 200 {
		many = append(many, named(fmt.Sprintf("f%d", i), ""))
	}
	_, err = fsys.WriteBatch(t.Context(), sequence(many...), files.BatchOptions{})
	wantCode(t, "more files than fit", err, spec.CodeNoSpace)
	if got := names(t, dir); len(got) != 1 || got[0] != "f" {
		t.Errorf("the directory holds %q, want f alone", got)
	}
	if got, _ := os.ReadFile(dir + "/f"); string(got) != "kept" {
		t.Errorf("f holds %q", got)
	}
}

// A cancel ends a batch while a source blocks: nothing has changed, no temporary file
// is left, and nothing runs on once the source gives way.
func TestBatchCancelled(t *testing.T) {
	dir := tempDir(t)
	before := runtime.NumGoroutine()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	time.AfterFunc(50*time.Millisecond, cancel)
	landed, err := localfs.New(dir).WriteBatch(ctx, func(yield func(files.BatchFile, error) bool) {
		defer close(asked)
		if yield(named("a", strings.Repeat("x", 1<<20)), nil) && yield(files.BatchFile{Name: "b", Size: 5, Src: r}, nil) {
			t.Error("a further file is asked for")
		}
	}, files.BatchOptions{})
	if landed != 0 || err != context.Canceled {
		t.Errorf("%d landed, %v", landed, err)
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	w.CloseWithError(errors.New("over"))
	<-asked
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 500 {
			t.Fatalf("%d goroutines run, %d did before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A file that only its owner may read is not shown to others while it is replaced.
func TestBatchHidesWhatIsPrivate(t *testing.T) {
	dir := tempDir(t)
	if err := os.WriteFile(dir+"/key", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := localfs.New(dir).WriteBatch(t.Context(), func(yield func(files.BatchFile, error) bool) {
		if !yield(named("key", strings.Repeat("k", 1<<20)), nil) {
			return
		}
		for range 3 { // staged by now, in part at least
			for _, name := range leftovers(t, dir) {
				if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("the temporary file has mode %v", info.Mode())
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}, files.BatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot(t, dir)[dir+"/key"]; !strings.HasPrefix(got, "-rw------- k") {
		t.Errorf("key is %.20q", got)
	}
}

// Names says what List says, without the metadata, and follows no link if told so.
func TestNames(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	if err := errors.Join(os.Mkdir(dir+"/d", 0o755), syscall.Mkfifo(dir+"/d/fifo", 0o644), os.Symlink("d", dir+"/d/link"), os.Symlink("d", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	const many = 600
	for i := range many {
		if err := os.WriteFile(fmt.Sprintf("%s/d/\xff\n%s%d", dir, strings.Repeat("n", i%200), i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := map[files.Info]bool{}
	for info, err := range fsys.List(t.Context(), "d") {
		if err != nil {
			t.Fatal(err)
		}
		want[files.Info{Name: info.Name, Mode: info.Mode.Type()}] = true
	}
	for _, name := range []string{"d", "link"} {
		n := 0
		for info, err := range fsys.Names(t.Context(), name, files.NamesOptions{}) {
			if n++; err != nil || !want[info] {
				t.Fatalf("%+v, %v", info, err)
			}
		}
		if n != len(want) || n != many+2 {
			t.Errorf("%s: %d names of %d", name, n, len(want))
		}
	}
	for name, code := range map[string]spec.Code{"link": spec.CodeNotDirectory, "missing": spec.CodeFileNotFound, "d/fifo": spec.CodeNotDirectory} {
		for _, err := range fsys.Names(t.Context(), name, files.NamesOptions{NoFollow: true}) {
			wantCode(t, name, err, code)
		}
	}
}

// Chmod sets the permission bits alone, through a link, of a file and of a directory.
func TestChmod(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	if err := errors.Join(os.WriteFile(dir+"/f", nil, 0o644), os.Symlink("f", dir+"/link"), os.Mkdir(dir+"/d", 0o755), os.Chmod(dir+"/d", 0o755|os.ModeSticky), syscall.Mkfifo(dir+"/fifo", 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"link": 0o751, "d": 0, "fifo": 0o600} {
		if err := fsys.Chmod(t.Context(), name, mode); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := snapshot(t, dir)
	for name, want := range map[string]string{"f": "-rwxr-x--x ", "d": "dt---------", "fifo": "prw-------"} {
		if got[dir+"/"+name] != want {
			t.Errorf("%s is %q, want %q", name, got[dir+"/"+name], want)
		}
	}
	wantCode(t, "more bits", fsys.Chmod(t.Context(), "f", 0o644|os.ModeSetuid), spec.CodeInvalid)
	wantCode(t, "missing", fsys.Chmod(t.Context(), "x", 0o644), spec.CodeFileNotFound)
	wantCode(t, "below a file", fsys.Chmod(t.Context(), "f/x", 0o644), spec.CodeNotDirectory)
}

// A write with a condition replaces the content that is expected, and no other.
func TestWriteIfSHA256(t *testing.T) {
	dir := tempDir(t)
	fsys := localfs.New(dir)
	const (
		sumA  = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
		empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	)
	if err := errors.Join(os.WriteFile(dir+"/f", []byte("a"), 0o644), os.Symlink("f", dir+"/link"), os.Mkdir(dir+"/d", 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, sum string
		code      spec.Code
	}{
		{"f", empty, spec.CodeExists},
		{"f", "abc", spec.CodeInvalid},
		{"f", strings.Repeat("z", 64), spec.CodeInvalid},
		{"missing", sumA, spec.CodeFileNotFound},
		{"link", sumA, spec.CodeExists},
		{"d", sumA, spec.CodeIsDirectory},
	} {
		wantCode(t, tt.name, writeString(t, fsys, tt.name, "b", files.WriteOptions{IfSHA256: tt.sum}), tt.code)
	}
	if got := snapshot(t, dir); got[dir+"/f"] != "-rw-r--r-- a" || len(got) != 4 {
		t.Errorf("it has left %q", got)
	}
	if err := writeString(t, fsys, "f", "b", files.WriteOptions{IfSHA256: strings.ToUpper(sumA)}); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(dir + "/f"); string(got) != "b" {
		t.Errorf("f holds %q", got)
	}
}
