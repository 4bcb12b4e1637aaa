package localfs_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/files"
	"github.com/berth-dev/berth/files/localfs"
	"github.com/berth-dev/berth/internal/testutil/swapper"
	"github.com/berth-dev/berth/spec"
)

// attempt is an operation on names of which an element is swapped for a link that leads
// out. It returns what it has seen; its error is as may be.
type attempt func(ctx context.Context, t *testing.T, f *localfs.FS, i int) (seen string)

// all is what a sequence yields, as text.
func all[T any](seq iter.Seq2[T, error]) string {
	var b strings.Builder
	for v, err := range seq {
		fmt.Fprintf(&b, "%+v %v\n", v, err)
	}
	return b.String()
}

const (
	raced     = "arena/swap"      // the directory that is swapped
	racedFile = "arena/swap/file" // and a file in it
)

// attempts are all operations of the file API, each with the swapped name as the last
// element, in the middle, or below what it works on.
var attempts = map[string]attempt{
	"read": func(ctx context.Context, _ *testing.T, f *localfs.FS, _ int) string {
		data, _ := files.ReadFile(ctx, f, racedFile, 0)
		return string(data)
	},
	"stat": func(ctx context.Context, t *testing.T, f *localfs.FS, i int) string {
		info, err := f.Stat(ctx, racedFile, files.StatOptions{Follow: i%2 == 0})
		if err == nil && info.Size == int64(len(swapper.Canary)) {
			t.Error("stat describes the file outside")
		}
		return ""
	},
	"resolve": func(ctx context.Context, t *testing.T, f *localfs.FS, _ int) string {
		name, err := f.Resolve(ctx, racedFile)
		if err == nil && strings.Contains(name, "/outside/") {
			t.Errorf("it resolves to %s", name)
		}
		return ""
	},
	"hash": func(ctx context.Context, _ *testing.T, f *localfs.FS, _ int) string {
		sum, err := files.Hash(ctx, f, racedFile)
		if err == nil && sum == canarySum {
			return swapper.Canary
		}
		return ""
	},
	"list": func(ctx context.Context, _ *testing.T, f *localfs.FS, _ int) string { return all(f.List(ctx, raced)) },
	"names": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		return all(f.Names(ctx, raced, files.NamesOptions{NoFollow: i%2 == 0}))
	},
	"glob": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		return all(files.Glob(ctx, f, files.GlobOptions{Dir: []string{"arena", raced}[i%2], Pattern: "**", Gitignore: i%3 == 0}))
	},
	"grep": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		return all(files.Grep(ctx, f, files.GrepOptions{Files: files.GlobOptions{Dir: []string{"arena", raced}[i%2]}, Pattern: "canary"}))
	},
	"write": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		name := []string{racedFile, raced + "/new", raced + "/made/deeper/new", raced + "/dir/new"}[i%4]
		_ = files.WriteFile(ctx, f, name, []byte("written"), files.WriteOptions{})
		return ""
	},
	"edit": func(ctx context.Context, _ *testing.T, f *localfs.FS, _ int) (seen string) {
		_, _ = files.Edit(ctx, f, racedFile, files.EditOptions{}, func(data []byte) ([]byte, error) {
			seen = string(data)
			return append(data, 'x'), nil
		})
		return seen
	},
	"batch": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_, _ = files.WriteBatch(ctx, f, func(yield func(files.BatchFile, error) bool) {
			for _, name := range []string{raced + "/new", raced + "/made/batch", racedFile} {
				if !yield(files.BatchFile{Name: name, Size: 1, Src: strings.NewReader("x")}, nil) {
					return
				}
			}
		}, files.BatchOptions{})
		return ""
	},
	"mkdir": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Mkdir(ctx, fmt.Sprintf("%s/made-%d/deeper", raced, i%50), files.MkdirOptions{Parents: true})
		return ""
	},
	"chmod": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Chmod(ctx, []string{racedFile, raced, raced + "/dir"}[i%3], 0o700)
		return ""
	},
	"remove": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Remove(ctx, []string{racedFile, raced + "/dir", raced + "/dir/deeper"}[i%3], files.RemoveOptions{Recursive: true})
		return ""
	},
	"rename": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Rename(ctx, []string{racedFile, raced + "/dir"}[i%2], fmt.Sprint("taken-", i), files.RenameOptions{})
		return ""
	},
	"rename to": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = files.WriteFile(ctx, f, "mine", []byte("mine"), files.WriteOptions{})
		_ = f.Rename(ctx, "mine", []string{racedFile, raced + "/dir/file"}[i%2], files.RenameOptions{Overwrite: true})
		return ""
	},
	"copy": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Copy(ctx, []string{racedFile, raced + "/dir", "arena"}[i%3], fmt.Sprint("copied-", i%20), files.CopyOptions{Recursive: true, Overwrite: true})
		return ""
	},
	"watch": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		var b strings.Builder
		_ = f.Watch(ctx, []string{"arena", raced}[i%2], files.WatchOptions{Recursive: true, Gitignore: i%3 == 0}, nil, func(e files.WatchEvent) error {
			fmt.Fprintf(&b, "%+v\n", e)
			return nil
		})
		return b.String()
	},
	"copy to": func(ctx context.Context, _ *testing.T, f *localfs.FS, i int) string {
		_ = f.Copy(ctx, "tree", []string{raced + "/tree", raced + "/dir"}[i%2], files.CopyOptions{Recursive: true, Overwrite: true})
		return ""
	},
}

var canarySum = fmt.Sprintf("%x", sha256.Sum256([]byte(swapper.Canary)))

// No operation reads or writes anything outside, however often a directory on its way is
// swapped for a link that leads there.
func TestRootedAgainstASwapperInEveryOperation(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		for name, try := range attempts {
			t.Run(name, func(t *testing.T) {
				top := tempDir(t)
				out := swapper.NewOutside(t, top+"/outside")
				a := swapper.NewArena(t, top+"/root/arena", out)
				for _, dir := range []string{"/root/tree/dir", "/root/tree/dir/deeper"} {
					if err := os.MkdirAll(top+dir, 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(top+dir+"/file", []byte("mine"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				f := open(top+"/root", top+"/root")
				for i := range swapper.Attempts() {
					swapper.Seen(t, name, try(t.Context(), t, f, i))
					a.Fill(t)
					if t.Failed() {
						break
					}
				}
				t.Logf("%d swaps", a.Stop(t))
				swapper.SeenBelow(t, name, top+"/root")
			})
		}
	})
}

// A recursive remove does not follow what it removes out of the tree, whatever is swapped
// in it meanwhile.
func TestRootedRemovesNothingOutside(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(workdir, root string) *localfs.FS) {
		top := tempDir(t)
		out := swapper.NewOutside(t, top+"/outside")
		if err := os.Mkdir(top+"/root", 0o755); err != nil {
			t.Fatal(err)
		}
		f := open(top+"/root", top+"/root")
		for range swapper.Attempts() {
			a := swapper.NewArena(t, top+"/root/gone", out)
			err := f.Remove(t.Context(), "gone", files.RemoveOptions{Recursive: true})
			a.Stop(t)
			if t.Failed() {
				t.Fatal(err)
			}
			if err := f.Remove(t.Context(), "gone", files.RemoveOptions{Recursive: true}); err != nil && spec.CodeOf(err) != spec.CodeFileNotFound {
				t.Fatal(err)
			}
		}
	})
}
