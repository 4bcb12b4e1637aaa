package isolate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/isolate"
)

// git runs git in a directory, with no configuration but the repository's.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

// submodules makes the index of the repository at dir name submodules.
func submodules(t *testing.T, dir string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+path)
	}
}

// guard is the wall round root/w, and what of it is read-only.
func guard(t *testing.T, root string, roots ...string) (isolate.Wall, []string) {
	t.Helper()
	wall, err := isolate.Guard(isolate.Policy{EUID: ordinary, Workdir: root + "/w", WritableRoots: at(root, roots...), Program: root + "/guest", Homes: at(root, "home")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fixed []string
	for i, arg := range wall.Args {
		if arg == "--ro-bind" && strings.HasPrefix(wall.Args[i+1], root) {
			fixed = append(fixed, strings.TrimPrefix(wall.Args[i+1], root+"/"))
		}
	}
	return wall, fixed
}

// has checks which of the paths, below root, are in a list.
func has(t *testing.T, what, root string, list []string, want map[string]bool) {
	t.Helper()
	for path, in := range want {
		if slices.Contains(list, path) != in && slices.Contains(list, root+"/"+path) != in {
			t.Errorf("%s is %s: want %t", path, what, in)
		}
	}
}

// TestSubmodulesOfTheIndex defends: what leads git into a submodule that the index names is
// read-only, or told when it is made; what it leads to as well; also of submodules in it.
func TestSubmodulesOfTheIndex(t *testing.T) {
	root := tree(t, "w/", "guest", "elsewhere/HEAD", "w/plain/.git/hooks/", "w/plain/.git/config", "w/linked -> plain", "w/other/HEAD", "w/other/config", "w/told/",
		"w/.git/modules/in/HEAD", "w/deep/er/in/", "w/long/", "w/gone/")
	git(t, root+"/w", "init", "-q")
	git(t, root+"/w/deep/er", "init", "-q", "--separate-git-dir", root+"/w/.git/modules/name")
	submodules(t, root+"/w", "deep/er", "plain", "told", "none/at/all", "linked", "moved", "outside", "long", "gone")
	submodules(t, root+"/w/deep/er", "in", "new")
	put(t, root+"/w/deep/er/.git", "gitdir: ../../.git/modules/name\n")
	put(t, root+"/w/deep/er/in/.git", "gitdir: ../../../.git/modules/in\n")
	put(t, root+"/w/moved/.git", "gitdir: ../other\r\n")
	put(t, root+"/w/outside/.git", "gitdir: "+root+"/elsewhere")
	put(t, root+"/w/long/.git", "gitdir: ../other"+strings.Repeat("\n", 8<<10))
	put(t, root+"/w/gone/.git", "gitdir: ../later")
	wall, fixed := guard(t, root)
	has(t, "read-only", root, fixed, map[string]bool{
		"w/deep/er/.git": true, "w/deep/er/in/.git": true, "w/.git/modules/name/config": true, "w/plain/.git/config": true, "w/plain/.git/hooks": true, "w/plain/.git": false,
		"w/moved/.git": true, "w/other/config": true, "w/outside/.git": true, "w/long/.git": true, "w/gone/.git": true,
	})
	has(t, "watched for", root, wall.Absent, map[string]bool{
		"w/told/.git": true, "w/none/at/all/.git": true, "w/deep/er/new/.git": true, "w/plain/.git/commondir": true, "w/other/commondir": true, "w/later": true,
		"w/.git/modules/in/config": true, "elsewhere/config": false,
	})
	has(t, "left out", root, wall.Unwatched, map[string]bool{"w/linked/.git": true, "w/long/.git": true, "w/told/.git": false})
	for _, index := range []isolate.Index{
		{Path: root + "/w/.git/index", WorkTree: root + "/w"},
		{Path: root + "/w/.git/modules/name/index", WorkTree: root + "/w/deep/er"},
		{Path: root + "/w/.git/modules/in/index", WorkTree: root + "/w/deep/er/in"},
		{Path: root + "/w/plain/.git/index", WorkTree: root + "/w/plain"},
		{Path: root + "/w/other/index", WorkTree: root + "/w/moved"},
	} {
		if !slices.Contains(wall.Indexes, index) || !strings.Contains(strings.Join(wall.Args, " "), " --git-index "+index.Path+":"+index.WorkTree) {
			t.Errorf("%+v is not watched", index)
		}
	}
}

// TestManySubmodules defends: of more submodules than are protected one by one, of an index
// that cannot be read and of submodules without an end a person is told; and nobody waits.
func TestManySubmodules(t *testing.T) {
	root := tree(t, "w/", "guest")
	git(t, root+"/w", "init", "-q")
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("s%02d", i))
	}
	submodules(t, root+"/w", many...)
	wall, _ := guard(t, root)
	has(t, "watched for", root, wall.Absent, map[string]bool{"w/s00/.git": true, "w/s31/.git": true, "w/s32/.git": false})
	has(t, "left out", root, wall.Unwatched, map[string]bool{"w/s31/.git": false, "w/s32/.git": true, "w/s39/.git": true})

	for _, name := range many { // each is the repository itself
		put(t, root+"/w/"+name+"/.git", "gitdir: ../.git")
	}
	if wall, _ = guard(t, root); len(wall.Indexes) > 64 || len(wall.Absent) > 1024 || len(wall.Unwatched) == 0 {
		t.Errorf("%d indexes, %d names; %d left out", len(wall.Indexes), len(wall.Absent), len(wall.Unwatched))
	}
	has(t, "watched for", root, wall.Absent, map[string]bool{"w/s00/s00/.git": true, "w/s08/s00/.git": false})
	has(t, "left out", root, wall.Unwatched, map[string]bool{"w/s00/s00/.git": false, "w/s00/s39/.git": true, "w/s08/s00/.git": true})
	for name, edit := range map[string]func(path string){
		"malformed": func(path string) { put(t, path, "DIRC, or so") },
		"a pipe":    func(path string) { pipe(t, path) },
		"a link":    func(path string) { link(t, "/dev/zero", path) },
	} {
		edit(root + "/w/.git/index")
		wall, _ = guard(t, root)
		has(t, name+" and left out", root, wall.Unwatched, map[string]bool{"w/.git/index": true})
	}
}

// TestWhereTheRepositoryIs defends: the parts of a repository that git runs programs for are
// protected wherever git finds it from a root: behind a file, and as the root itself; and
// that a root becomes one is told.
func TestWhereTheRepositoryIs(t *testing.T) {
	parts := []string{"/HEAD", "/objects/", "/refs/", "/config", "/hooks/", "/modules/m/HEAD", "/modules/m/config", "/worktrees/t/commondir"}
	repository := func(dir string) (out []string) {
		for _, part := range parts {
			out = append(out, dir+part)
		}
		return out
	}
	for _, tt := range []struct {
		name            string
		tree            []string
		dot             string
		roots           []string
		fixed, absent   []string
		neither, indexs []string
	}{
		{
			"behind a file", repository("w/.bare"), "gitdir: ./.bare", nil,
			[]string{"w/.git", "w/.bare/config", "w/.bare/hooks", "w/.bare/modules/m/config", "w/.bare/worktrees/t/commondir"},
			[]string{"w/.bare/commondir", "w/.bare/config.worktree", "w/.bare/worktrees/t/config.worktree", "w/HEAD"},
			[]string{"w/.git/config"},
			[]string{"w/.bare/index"},
		},
		{
			"behind a file, in another root", repository("r/b"), "gitdir: ../r/b",
			[]string{"r"},
			[]string{"w/.git", "r/b/config", "r/b/hooks"},
			[]string{"r/b/commondir"},
			nil,
			[]string{"r/b/index"},
		},
		{
			"behind a file, where nothing can be written", repository("r/b"), "gitdir: ../r/b", nil,
			[]string{"w/.git"},
			[]string{"w/HEAD"},
			[]string{"r/b/config", "r/b/commondir", "r/b/index"},
			nil,
		},
		{
			"a linked work tree of it", append(repository("w/.bare"), "w/t/x"), "gitdir: .bare/worktrees/t", nil,
			[]string{"w/.git", "w/.bare/config", "w/.bare/hooks", "w/.bare/worktrees/t/commondir"},
			[]string{"w/.bare/worktrees/t/config.worktree"},
			[]string{"w/.bare/worktrees/t/hooks"},
			[]string{"w/.bare/worktrees/t/index"},
		},
		{
			"the root itself", repository("w"), "", nil,
			[]string{"w/config", "w/hooks", "w/modules/m/config", "w/worktrees/t/commondir"},
			[]string{"w/commondir", "w/config.worktree", "w/.git"},
			[]string{"w/HEAD"},
			[]string{"w/index"},
		},
		{
			"the root beside another", append(repository("w"), "w/.git/config"), "", nil,
			[]string{"w/config", "w/hooks", "w/.git/config"},
			[]string{"w/commondir", "w/.git/commondir"},
			nil,
			[]string{"w/.git/index"},
		},
		{"nearly one", []string{"w/HEAD", "w/refs/", "w/config"}, "", nil, nil, []string{"w/commondir", "w/objects"}, []string{"w/config", "w/HEAD"}, nil},
		{"nearly one with another's parts", []string{"w/HEAD", "w/commondir", "w/config"}, "", nil, []string{"w/commondir", "w/config"}, []string{"w/hooks"}, nil, []string{"w/index"}},
		{"one that was asked for", append(repository("w/.git"), "w/x"), "", []string{"w/.git"}, nil, []string{"w/HEAD"}, []string{"w/.git/config", "w/.git/hooks"}, []string{"w/.git/index"}},
		{"none", nil, "", nil, nil, []string{"w/HEAD", "w/.git"}, []string{"w/objects", "w/commondir"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree(t, append(tt.tree, "w/", "r/", "guest")...)
			if tt.dot != "" {
				put(t, root+"/w/.git", tt.dot)
			}
			if strings.Contains(tt.dot, "worktrees") {
				put(t, root+"/w/.bare/worktrees/t/commondir", "../..")
			}
			wall, fixed := guard(t, root, tt.roots...)
			for _, path := range tt.fixed {
				has(t, "read-only", root, fixed, map[string]bool{path: true})
			}
			for _, path := range tt.absent {
				has(t, "watched for", root, wall.Absent, map[string]bool{path: true})
			}
			for _, path := range tt.neither {
				has(t, "either", root, slices.Concat(fixed, wall.Absent), map[string]bool{path: false})
			}
			var indexes []string
			for _, index := range wall.Indexes {
				indexes = append(indexes, strings.TrimPrefix(index.Path, root+"/"))
			}
			if !slices.Equal(indexes, tt.indexs) {
				t.Errorf("indexes %q, want %q", indexes, tt.indexs)
			}
		})
	}
}

// TestHooksOfTheConfiguration defends: the directory that core.hooksPath names is read-only,
// whichever configuration names it: the repository's, a work tree's own, its user's.
func TestHooksOfTheConfiguration(t *testing.T) {
	root := worktree(t, func(root string) {
		for path, text := range map[string]string{
			"repo/.git/config":                      "[core]\n\trepositoryformatversion = 1\n\thooksPath = tools/hooks ; of all\n",
			"repo/.git/worktrees/w/config.worktree": "[core] hookspath = \"own hooks\"\n",
			"home/.gitconfig":                       "[core]\nhooksPath = ~/hooks\nhooksPath = global\n",
			"repo/.git/config.worktree":             "[core]\nhooksPath = of-the-main-one\n",
		} {
			put(t, filepath.Join(root, path), text)
		}
		for _, dir := range []string{"tools/hooks", "own hooks", "global", "of-the-main-one"} {
			put(t, filepath.Join(root, "work", dir, "pre-commit"), "")
		}
		put(t, root+"/guest", "")
		link(t, "work", root+"/w")
	})
	repo := isolate.Worktree(root+"/work", nil, nil)
	if repo.Dir == "" {
		t.Fatal("it is no linked work tree")
	}
	wall, err := isolate.Guard(isolate.Policy{
		EUID: ordinary, Workdir: root + "/work", OptionalRoots: []string{repo.Dir}, Protected: repo.Protected, Program: root + "/guest", Homes: at(root, "home"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var fixed []string
	for i, arg := range wall.Args {
		if arg == "--ro-bind" {
			fixed = append(fixed, wall.Args[i+1])
		}
	}
	has(t, "read-only", root, fixed, map[string]bool{"work/tools/hooks": true, "work/own hooks": true, "work/global": true, "work/of-the-main-one": false, "work/.git": true, "repo/.git/config": true})
	if want := (isolate.Index{Path: root + "/repo/.git/worktrees/w/index", WorkTree: root + "/work"}); !slices.Equal(wall.Indexes, []isolate.Index{want}) {
		t.Errorf("indexes: %+v", wall.Indexes)
	}
}

// TestClosed defends: what a command has closed to everybody, and can open again in the next
// sandbox, is read-only in that one.
func TestClosed(t *testing.T) {
	if os.Geteuid() == 0 {
		asOrdinary(t)
		return
	}
	for name, tt := range map[string]struct {
		mode os.FileMode
		want string
	}{
		"w/.git":           {0, "w/.git"},
		"w/.git/worktrees": {0o311, "w/.git/worktrees"},
		"w/.config":        {0o600, "w/.config"},
		"w/sub":            {0, "w/sub"},
	} {
		root := tree(t, "w/.git/config", "w/.git/worktrees/t/commondir", "w/.config/mise/x", "w/sub/.git", "guest")
		git(t, root+"/w", "init", "-q")
		submodules(t, root+"/w", "sub")
		if err := os.Chmod(root+"/"+name, tt.mode); err != nil {
			t.Fatal(err)
		}
		_, fixed := guard(t, root)
		if err := os.Chmod(root+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
		has(t, fmt.Sprintf("read-only with mode %o", tt.mode), root, fixed, map[string]bool{tt.want: true})
	}
}

// TestRoomForRoots defends: what is watched for in one root leaves room for twenty.
func TestRoomForRoots(t *testing.T) {
	root := tree(t, "w/", "guest")
	wall, _ := guard(t, root)
	if got := len(wall.Absent); got > 1024/20 {
		t.Errorf("%d names are watched for in an empty root", got)
	}
}

// TestWithinReadOnly defends: what is read-only in a directory that is read-only as a whole
// makes nothing on the way to it writable again.
func TestWithinReadOnly(t *testing.T) {
	root := tree(t, "w/.git/config", "w/.husky/a/b/pre-commit", "w/tools/a/b/pre-commit", "guest")
	write(t, root+"/w/.git/config", "[core]\nhooksPath = .husky/a/b\nhooksPath = tools/a/b\nhooksPath = tools\n")
	wall, fixed := guard(t, root)
	has(t, "read-only", root, fixed, map[string]bool{"w/.husky": true, "w/.husky/a/b": false, "w/tools": true})
	for _, path := range []string{"/w/.husky/a", "/w/tools/a"} {
		if args := strings.Join(wall.Args, " "); strings.Contains(args, " --bind "+root+path) {
			t.Errorf("%s is writable again: %s", path, args)
		}
	}
}

// TestRoomForTheWrapper defends: what a command has made in one root, however much and deep,
// leaves the wall one that the wrapper can build, and what is protected in another root; of
// what there is no room for a person is told.
func TestRoomForTheWrapper(t *testing.T) {
	names := []string{"w/", "r/.git/config", "r/.git/hooks/", "r/.envrc", "guest"}
	deep := strings.Repeat("d/", 40)
	var links []string
	for i := range 30 {
		module := fmt.Sprintf("w/.git/modules/%d/", i)
		names = append(names, module+"HEAD", module+"config", module+"hooks/")
		links = append(links, fmt.Sprintf("%d/%ss", i, deep))
		names = append(names, "w/"+links[i]+"/.git")
		tree := fmt.Sprintf("w/.git/worktrees/%d/modules/", i)
		for j := range 30 {
			names = append(names, fmt.Sprintf("%s%d/config", tree, j))
		}
	}
	root := tree(t, names...)
	git(t, root+"/w", "init", "-q")
	submodules(t, root+"/w", links...)
	wall, fixed := guard(t, root, "r")
	if len(wall.Args) > 9000 {
		t.Errorf("%d arguments", len(wall.Args))
	}
	if len(wall.Unwatched) == 0 {
		t.Error("nobody is told")
	}
	has(t, "read-only", root, fixed, map[string]bool{"w/.git/config": true, "w/.git/hooks": true, "w/.git/modules/3/config": true, "r/.git/config": true, "r/.git/hooks": true, "r/.envrc": true})
}
