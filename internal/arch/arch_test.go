package arch

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-dev/berth"

// file is one parsed Go file of the module.
type file struct {
	path    string // relative to the root, with slashes
	pkg     string // the package's directory, "." for the root
	test    bool
	ast     *ast.File
	lines   int
	imports []string
}

// load parses every Go file of the module, other modules below it left out.
func load(t *testing.T) (*token.FileSet, []file) {
	t.Helper()
	root := filepath.Join("..", "..")
	fset := token.NewFileSet()
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			name := d.Name()
			nested := rel != "." && exists(filepath.Join(p, "go.mod"))
			if rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || nested) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, p, src, parser.ParseComments)
		if err != nil {
			return err
		}
		f := file{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), ast: parsed, lines: strings.Count(string(src), "\n")}
		for _, imp := range parsed.Imports {
			name, _ := strconv.Unquote(imp.Path.Value)
			f.imports = append(f.imports, name)
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fset, files
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}

// law is what one package, or all below a prefix ending in "/", may import of
// this module. Patterns end in "/" to mean everything below.
type law struct {
	pkg   string
	may   []string
	third []string // third-party import prefixes; nil: none
	rule  string
}

var laws = []law{
	{"spec", nil, nil, "spec is the bottom: it imports the standard library only"},
	{"files", []string{"spec", "files/internal/pattern", "files/internal/ignore"}, nil, "files is a contract and what is written over it: it imports spec and its own matchers only"},
	{"files/internal/nfa", nil, nil, "nfa matches bytes: the standard library only"},
	{"files/internal/pattern", []string{"files/internal/nfa"}, nil, "a notation imports the automaton only"},
	{"files/internal/ignore", []string{"files/internal/nfa"}, nil, "a notation imports the automaton only"},
	{"files/internal/source", []string{"spec", "files"}, nil, "source holds what both file systems ask of the bytes they are given"},
	{"files/internal/feed", []string{"files"}, nil, "feed is a queue of events and nothing of who sees them"},
	{"files/localfs", []string{"spec", "files", "files/internal/source", "files/localfs/internal/"}, []string{"golang.org/x/sys/"}, "localfs is linked by the guest: spec, files and x/sys only"},
	{"files/localfs/internal/sys", nil, []string{"golang.org/x/sys/"}, "sys is system calls: x/sys only"},
	{"files/localfs/internal/beneath", []string{"spec", "files/localfs/internal/sys", "internal/openat2"}, []string{"golang.org/x/sys/"}, "beneath knows paths and descriptors, not files"},
	{"files/localfs/internal/kernelfile", []string{"spec", "files/localfs/internal/sys"}, []string{"golang.org/x/sys/"}, "kernelfile knows descriptors and what the kernel makes up"},
	{"files/localfs/internal/watch", []string{"spec", "files", "files/internal/feed", "files/localfs/internal/beneath", "files/localfs/internal/sys"}, []string{"golang.org/x/sys/"}, "watch knows descriptors and the kernel's events, not names that lead to them"},
	{"files/memfs", []string{"spec", "files", "files/internal/source", "files/internal/feed"}, nil, "memfs is a reference: spec and files only"},
	{"files/tree", []string{"spec", "files", "internal/tarstream"}, nil, "tree is written over the file contract and the strict reader of archives"},
	{"internal/tarstream", []string{"spec"}, nil, "tarstream reads bytes: the standard library and spec only"},
	{"files/view", []string{"spec", "files"}, nil, "a view is written over the contract: spec and files only"},
	{"files/filestest", []string{"spec", "files", "files/tree", "files/view"}, nil, "the file suite knows the contract only"},
	{"audit", []string{"spec"}, nil, "audit writes what it is told, and knows no sandbox: spec only"},
	{"driver", []string{"spec", "files"}, nil, "driver is what a backend author reads: spec and files only"},
	{"internal/wire", []string{"spec", "files"}, []string{"github.com/hashicorp/yamux"}, "wire is linked by both sides: spec, files and the mux only"},
	{"internal/agent", []string{"internal/wire", "files", "files/localfs", "spec", "internal/agent/countdown", "internal/agent/direct", "internal/agent/event", "internal/agent/fileserver", "internal/agent/peer", "internal/agent/port", "internal/agent/proc", "internal/agent/stream", "internal/agent/terminal", "internal/agent/job", "internal/agent/oom", "internal/agent/limit", "internal/agent/wall", "internal/agent/confine", "internal/environ", "internal/agent/lapsed", "internal/agent/relay", "internal/agent/usage"}, []string{"golang.org/x/sys/"}, "the guest links std, x/sys, the mux and a PTY helper; host and guest meet only in wire"},
	{"internal/agent/confine", []string{"internal/openat2"}, []string{"golang.org/x/sys/"}, "confine judges system calls: openat2 and x/sys only"},
	{"internal/agent/event", []string{"spec", "internal/wire", "internal/agent/stream"}, nil, "event keeps what others cause and tells of it"},
	{"internal/agent/fileserver", []string{"internal/wire", "internal/agent/stream", "files", "files/tree", "spec"}, nil, "fileserver turns requests into calls of files"},
	{"internal/agent/limit", []string{"internal/agent/oom", "internal/cgroup"}, []string{"golang.org/x/sys/"}, "limit is the guest's part in control groups"},
	{"internal/agent/oom", []string{"spec"}, []string{"golang.org/x/sys/"}, "oom reads the kernel's counters: spec and x/sys only"},
	{"internal/environ", []string{"spec"}, nil, "environ makes environments of names and values"},
	{"internal/agent/countdown", nil, nil, "countdown counts time: the standard library only"},
	{"internal/agent/lapsed", nil, nil, "lapsed remembers: the standard library only"},
	{"internal/agent/direct", nil, []string{"golang.org/x/sys/"}, "direct connects to whoever rings: x/sys only"},
	{"internal/agent/relay", []string{"internal/agent/peer"}, []string{"golang.org/x/sys/"}, "relay joins streams to a socket whose owner it checks"},
	{"internal/agent/pack", nil, []string{"golang.org/x/sys/"}, "pack writes a directory as an archive: x/sys only"},
	{"internal/agent/peer", []string{"internal/agent/proc"}, []string{"golang.org/x/sys/"}, "peer tells who is at the other end of a socket: proc and x/sys only"},
	{"internal/agent/port", []string{"spec", "internal/wire", "internal/agent/proc", "internal/agent/stream"}, []string{"golang.org/x/sys/"}, "port joins sockets with streams of the host"},
	{"internal/agent/drop", nil, []string{"golang.org/x/sys/"}, "drop gives up rights: x/sys only"},
	{"internal/agent/wall", []string{"internal/agent/drop", "internal/gitindex", "internal/wire"}, []string{"golang.org/x/sys/"}, "wall says in the result of a command what the wall of a place has to say"},
	{"internal/agent/proc", []string{"spec", "internal/agent/starter", "internal/openat2", "internal/procstat"}, []string{"golang.org/x/sys/"}, "proc is the guest's hold on processes: spec, starter, openat2, procstat and x/sys only"},
	{"internal/agent/starter", nil, []string{"golang.org/x/sys/"}, "starter forks: x/sys only"},
	{"internal/agent/job", []string{"spec", "internal/wire", "internal/agent/stream", "internal/agent/joblog"}, []string{"golang.org/x/sys/"}, "job keeps the records, logs and events of jobs and starts no process"},
	{"internal/agent/joblog", []string{"spec"}, []string{"golang.org/x/sys/"}, "joblog is a file and its index: spec and x/sys only"},
	{"internal/agent/stream", []string{"spec", "internal/wire"}, []string{"golang.org/x/sys/"}, "stream carries a command's streams: spec and wire only"},
	{"internal/agent/usage", nil, nil, "usage measures time: the standard library only"},
	{"internal/agent/terminal", []string{"spec", "internal/wire", "internal/vt", "internal/scrollback", "internal/agent/lapsed", "internal/agent/stream"}, []string{"golang.org/x/sys/", "github.com/creack/pty"}, "terminal keeps terminals and starts no process"},
	{"internal/scrollback", []string{"spec", "internal/vt", "internal/wire"}, nil, "scrollback keeps bytes and knows no terminal"},
	{"internal/vt", nil, nil, "vt reads what programs write to a terminal: the standard library only"},
	{"internal/filelock", nil, []string{"golang.org/x/sys/"}, "filelock is a lock: system calls only"},
	{"repo", []string{"spec", "files/tree", "internal/filelock", "internal/tarstream"}, nil, "repo drives git on this machine, and knows of a sandbox what takes a tree"},
	{"internal/cli/repocmd", []string{".", "driver", "spec", "files", "repo", "backend/all", "internal/config", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for git repositories call package repo"},
	{"internal/guestbin", []string{"spec", "internal/reexec", "internal/filelock"}, []string{"golang.org/x/sys/"}, "guestbin finds or builds the guest binary"},
	{"guest/internal/ask", []string{"internal/wire", "spec"}, nil, "ask is what operations need of a session"},
	{"guest/internal/outage", nil, nil, "outage is time and nothing else"},
	{"guest/internal/remotejobs", []string{"guest/internal/ask", "internal/wire", "spec", "driver"}, nil, "remotejobs asks a guest for jobs: it knows the protocol and the contract only"},
	{"guest/internal/remoteevent", []string{"guest/internal/ask", "internal/wire", "spec"}, nil, "remoteevent asks a guest what happens: it knows the protocol and the contract only"},
	{"guest/internal/remoteport", []string{"guest/internal/ask", "internal/wire", "spec"}, nil, "remoteport asks a guest for connections: it knows the protocol and the contract only"},
	{"guest/internal/remoteterm", []string{"guest/internal/ask", "internal/wire", "spec", "driver"}, nil, "remoteterm asks a guest for terminals: it knows the protocol and the contract only"},
	{"guest/internal/remotefs", []string{"guest/internal/ask", "internal/wire", "internal/tarstream", "spec", "files", "files/tree"}, nil, "remotefs asks a guest for files: it knows the protocol and the contract only"},
	{"guest", []string{"guest/internal/", "internal/wire", "internal/reexec", "internal/guestbin", "driver", "spec", "files"}, []string{"golang.org/x/sys/"}, "guest is the host side: host and guest meet only in wire"},
	{"guest/selfexec", []string{"internal/agent", "internal/reexec"}, nil, "selfexec is the one place where a host program becomes a guest"},
	{"internal/cgroup", []string{"spec"}, []string{"golang.org/x/sys/"}, "cgroup makes, sets and removes control groups, nothing else"},
	{"internal/idmap", nil, []string{"golang.org/x/sys/"}, "idmap mounts, and knows nothing of places"},
	{"internal/openat2", nil, []string{"golang.org/x/sys/"}, "openat2 is one system call: x/sys only"},
	{"internal/procstat", nil, []string{"golang.org/x/sys/"}, "procstat reads one file of the kernel"},
	{"internal/place/begin", []string{"spec"}, []string{"golang.org/x/sys/"}, "begin is with what a process on this side is started"},
	{"internal/place/made", nil, nil, "made keeps names in a directory: the standard library only"},
	{"internal/place", []string{"internal/wire", "spec", "internal/agent", "internal/cgroup", "internal/idmap", "internal/place/begin", "internal/place/made", "internal/procstat"}, []string{"golang.org/x/sys/"}, "place is linked by the guest binary for the far side of ssh"},
	{"internal/place/remote", []string{"internal/environ", "internal/place", "internal/wire", "spec"}, nil, "remote is linked by the guest binary: it speaks for places, in frames"},
	{"internal/gitindex", nil, nil, "gitindex reads one file: the standard library only"},
	{"internal/isolate", []string{"spec", "internal/gitindex", "internal/isolate/inode", "internal/isolate/repository"}, []string{"golang.org/x/sys/"}, "isolate turns a policy into a wrapper, nothing else"},
	{"internal/isolate/inode", nil, []string{"golang.org/x/sys/"}, "inode says by number what lies at a path"},
	{"internal/isolate/repository", nil, nil, "repository reads what git keeps, of which a command may have written every part"},
	{"backend/process", []string{"driver", "guest", "spec", "files", "internal/environ", "internal/place", "internal/isolate", "internal/cgroup", "internal/idmap"}, []string{"golang.org/x/sys/"}, "a backend imports driver, guest and its own SDK, never another backend, the root or the server"},
	{"internal/engine/address", []string{"spec"}, nil, "address finds an engine and connects: spec and the standard library only"},
	{"internal/engine/ondemand", []string{"driver", "spec"}, []string{"golang.org/x/sys/"}, "ondemand starts an engine's service: it knows no API"},
	{"internal/engine", []string{"driver", "spec", "internal/engine/address"}, []string{"github.com/moby/", "github.com/containerd/errdefs", "github.com/opencontainers/", "golang.org/x/sync/"}, "engine speaks with a container engine and knows no guest"},
	{"internal/engine/image/buildkit", []string{"spec"}, []string{"github.com/moby/moby/client"}, "buildkit is a session and a log: it knows no image"},
	{"internal/engine/image", []string{"driver", "spec", "internal/engine", "internal/engine/image/buildkit", "internal/engine/snapshot"}, []string{"github.com/moby/", "github.com/containerd/errdefs", "github.com/opencontainers/", "github.com/distribution/reference"}, "image is the images of an engine: it knows no guest and no place"},
	{"internal/engine/account", []string{"spec"}, nil, "account reads what an image says of users: spec only"},
	{"internal/engine/mounts", []string{"spec"}, []string{"github.com/moby/"}, "mounts are words: a spec's and an engine's"},
	{"internal/engine/direct", []string{"driver", "internal/engine", "internal/procstat"}, []string{"github.com/moby/", "golang.org/x/sys/"}, "direct knows directories, sockets and pids, and no guest"},
	{"internal/engine/helper", []string{"driver", "guest", "spec", "internal/engine", "internal/engine/account"}, []string{"github.com/moby/"}, "helper is containers that never run: it knows no place"},
	{"internal/engine/snapshot", []string{"driver", "spec", "files", "internal/engine", "internal/engine/account"}, []string{"github.com/moby/", "github.com/containerd/errdefs"}, "snapshot is images that were places: it knows no guest"},
	{"internal/engine/leftover", []string{"driver", "spec", "internal/engine", "internal/engine/image", "internal/engine/snapshot"}, []string{"github.com/moby/"}, "leftover knows what is left on an engine, and no guest"},
	{"internal/engine/place", []string{"driver", "guest", "spec", "files", "internal/engine", "internal/engine/account", "internal/engine/direct", "internal/engine/helper", "internal/engine/image", "internal/engine/leftover", "internal/engine/mounts", "internal/engine/snapshot", "internal/engine/address"}, []string{"github.com/moby/", "github.com/containerd/errdefs"}, "place makes containers into places, of any dialect"},
	{"backend/docker", []string{"driver", "guest", "spec", "internal/engine", "internal/engine/address", "internal/engine/place"}, nil, "a backend imports driver, guest and what it is made of, never another backend, the root or the server"},
	{"backend/podman", []string{"driver", "guest", "spec", "internal/engine", "internal/engine/address", "internal/engine/ondemand", "internal/engine/place"}, nil, "a backend imports driver, guest and what it is made of, never another backend, the root or the server"},
	{"backend/ssh", []string{"driver", "guest", "spec", "files", "internal/place/remote", "internal/wire"}, []string{"golang.org/x/crypto/"}, "a backend imports driver, guest and its own SDK; the far side of this one speaks frames before the hello"},
	{"backend/fake", []string{"driver", "spec", "files", "files/memfs", "backend/fake/internal/"}, nil, "the fake is a backend without a guest: its places are memory"},
	{"backend/fake/internal/line", []string{"spec"}, nil, "the fake's line discipline is bytes and modes"},
	{"backend/fake/internal/terminal", []string{"spec", "internal/scrollback", "internal/vt", "backend/fake/internal/kernel"}, nil, "the fake's terminals know its kernel's and keep what a guest's keep"},
	{"backend/fake/internal/kernel", []string{"spec", "files", "files/memfs", "backend/fake/internal/line"}, nil, "the fake's kernel knows files in memory and nothing of a driver"},
	{"backend/fake/internal/stream", []string{"spec", "backend/fake/internal/kernel"}, nil, "the fake's streams know its kernel's pipes only"},
	{"backend/fake/internal/port", []string{"spec"}, nil, "the fake's network is in memory: spec only"},
	{"backend/fake/internal/environ", []string{"spec"}, nil, "the fake's environments are names and values"},
	{"backend/fake/internal/disk", []string{"spec"}, nil, "the fake's disk is a number"},
	{"backend/fake/internal/event", []string{"spec"}, nil, "the fake's events are a list"},
	{"backend/fake/internal/filesys", []string{"spec", "files", "files/memfs", "backend/fake/internal/disk"}, nil, "the fake's files are memfs behind what every request goes through"},
	{"backend/fake/internal/job", []string{"spec", "files", "files/memfs"}, nil, "the fake's jobs are records and logs in its files"},
	{"backend/fake/internal/programs", []string{"files", "backend/fake/internal/kernel", "backend/fake/internal/line"}, []string{"mvdan.cc/sh/v3/"}, "the fake's programs know its kernel only"},
	{"backend/fake/internal/shell", []string{"spec", "backend/fake/internal/kernel", "backend/fake/internal/programs"}, []string{"mvdan.cc/sh/v3/"}, "the fake's shell has its grammar from mvdan.cc/sh and its processes from the fake's kernel"},
	{"backend/all", []string{"backend/", "driver", "spec", "guest", "."}, nil, "all lists the backends; nothing below knows them"},
	{".", []string{"spec", "driver", "files", "files/tree"}, nil, "the root imports spec, driver and files, never a backend, the CLI or the guest"},
	{"drivertest", []string{"spec", "driver", "files", "files/filestest", "drivertest/internal/rawcall", "."}, nil, "drivertest names no backend and imports none"},
	{"drivertest/internal/rawcall", nil, nil, "rawcall makes programs of system calls: the standard library only"},
	{"internal/config", []string{"spec", "backend/docker", "backend/podman", "backend/process", "backend/ssh", "backend/all", "guest"}, []string{"github.com/pelletier/go-toml/"}, "config turns flags, environment and file into options"},
	{"internal/cli", []string{".", "spec", "driver", "drivertest", "guest", "backend/all", "internal/config", "internal/isolate", "internal/cli/"}, []string{"github.com/spf13/"}, "the CLI calls the library: no logic that a Go caller could not reach"},
	{"internal/cli/console", []string{"spec"}, []string{"golang.org/x/term"}, "console speaks to whoever runs berth, and knows no verb"},
	{"internal/cli/verb", []string{".", "spec", "audit", "driver", "backend/all", "internal/config", "internal/cli/console"}, []string{"github.com/spf13/"}, "verb is what the verbs have in common, and knows none of them"},
	{"internal/cli/imagecmd", []string{".", "spec", "driver", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for images call the library"},
	{"internal/cli/snapshotcmd", []string{".", "spec", "driver", "backend/all", "internal/config", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for suspension and snapshots call the library"},
	{"internal/cli/portcmd", []string{".", "spec", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for ports call the library"},
	{"internal/cli/eventcmd", []string{".", "spec", "audit", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for events call the library"},
	{"internal/cli/transfer", []string{"spec", "files"}, nil, "transfer moves trees of files between file systems: spec and files only"},
	{"internal/cli/filescmd", []string{".", "spec", "files", "internal/cli/console", "internal/cli/verb", "internal/cli/transfer"}, []string{"github.com/spf13/"}, "the verbs for files call the library and transfer"},
	{"internal/cli/treecmd", []string{".", "spec", "files/tree", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for whole directories call the library"},
	{"internal/cli/jobscmd", []string{".", "spec", "internal/config", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/"}, "the verbs for jobs call the library"},
	{"internal/cli/shellcmd", []string{".", "spec", "internal/vt", "internal/cli/console", "internal/cli/verb"}, []string{"github.com/spf13/", "golang.org/x/term"}, "the verbs for terminals call the library"},
	{"cmd/berth", []string{"internal/cli", "guest/selfexec"}, nil, "main is forty lines"},
	{"cmd/berth-guest", []string{"internal/agent", "internal/agent/pack", "internal/place/remote"}, nil, "the guest binary is agent and place"},
	{"internal/testutil/streamtest/peer", nil, nil, "what runs inside a place for a test needs nothing but itself"},
	{"internal/testutil/race", nil, nil, "a fact about the build"},
	{"internal/testutil/killtest", []string{"spec", "driver", "files"}, nil, "killtest works as a client of any backend"},
	{"internal/testutil/streamtest", []string{".", "files", "internal/testutil/race"}, nil, "streamtest proves streams from outside, as a user would"},
	{"internal/testutil/", []string{"spec", "internal/wire"}, []string{"github.com/moby/", "golang.org/x/"}, "test helpers start real services"},
	{"bench", []string{".", "spec", "driver", "drivertest", "files", "files/tree", "guest", "guest/selfexec", "backend/", "internal/testutil/"}, []string{"github.com/moby/", "golang.org/x/"}, "bench measures from outside"},
	{"internal/docs", []string{"internal/config", "internal/isolate", "spec", "drivertest"}, nil, "docs makes tables of what the code says"},
	{"internal/arch", nil, nil, "arch has no code"},
	{"internal/reexec", nil, nil, "reexec holds one fact about the program"},
}

func lawFor(pkg string) (law, bool) {
	for _, l := range laws {
		if l.pkg == pkg || (strings.HasSuffix(l.pkg, "/") && strings.HasPrefix(pkg+"/", l.pkg)) {
			return l, true
		}
	}
	return law{}, false
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return p == name || (strings.HasSuffix(p, "/") && strings.HasPrefix(name+"/", p))
	})
}

// Every arrow points down: the import law of ARCHITECTURE.md.
func TestImportLaw(t *testing.T) {
	_, files := load(t)
	for _, f := range files {
		if f.test {
			continue
		}
		l, ok := lawFor(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no import law; add a row that says what it may import", f.path, f.pkg)
			continue
		}
		for _, imp := range f.imports {
			switch {
			case imp == module || strings.HasPrefix(imp, module+"/"):
				name := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
				if name == "" {
					name = "."
				}
				if !matches(l.may, name) {
					t.Errorf("%s imports %s\n\trule: %s", f.path, name, l.rule)
				}
			case strings.Contains(strings.SplitN(imp, "/", 2)[0], "."):
				if !slices.ContainsFunc(l.third, func(p string) bool { return strings.HasPrefix(imp+"/", strings.TrimSuffix(p, "/")+"/") }) {
					t.Errorf("%s imports %s\n\trule: %s", f.path, imp, l.rule)
				}
			}
		}
	}
}

// Test code of other packages never reaches a release build.
func TestTestOnlyPackages(t *testing.T) {
	_, files := load(t)
	for _, f := range files {
		for _, imp := range f.imports {
			testOnly := strings.HasPrefix(imp, module+"/internal/testutil")
			user := f.test || strings.HasPrefix(f.pkg, "internal/testutil") || f.pkg == "bench"
			if testOnly && !user {
				t.Errorf("%s imports %s\n\trule: internal/testutil is for tests and bench", f.path, imp)
			}
		}
	}
}

// Environment variables and configuration files are read in internal/config alone.
func TestEnvironmentIsReadInConfigOnly(t *testing.T) {
	// The value says why the exception is none.
	allowed := map[string]string{
		"internal/config":    "it is the place",
		"cmd/berth":          "hands os.Environ to the CLI",
		"internal/cli":       "resolves --env NAME from the environ that main hands in",
		"internal/agent/":    "the guest's environment is the place's, not configuration",
		"internal/place/":    "the guest's environment is the place's, not configuration",
		"backend/process":    "the base environment of commands is data, not configuration",
		"bench":              "a program of its own",
		"internal/guestbin":  "the toolchain's environment is handed on to go build",
		"internal/testutil/": "tests",
	}
	fset, files := load(t)
	for _, f := range files {
		if f.test {
			continue
		}
		ok := false
		for pkg := range allowed {
			ok = ok || matches([]string{pkg}, f.pkg)
		}
		if ok {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, isSel := n.(*ast.SelectorExpr)
			if !isSel {
				return true
			}
			id, isID := sel.X.(*ast.Ident)
			if isID && id.Name == "os" && slices.Contains([]string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, sel.Sel.Name) {
				t.Errorf("%s: os.%s\n\trule: environment variables are read in internal/config alone", fset.Position(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// Every package says what it is; every exported name carries its contract.
func TestDocs(t *testing.T) {
	fset, files := load(t)
	documented := map[string]bool{}
	for _, f := range files {
		if !f.test && f.ast.Doc != nil {
			documented[f.pkg] = true
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		if !documented[f.pkg] {
			t.Errorf("%s: no package comment", f.pkg)
			documented[f.pkg] = true
		}
		if strings.HasPrefix(f.pkg, "internal/") || strings.HasPrefix(f.pkg, "cmd/") || f.pkg == "bench" {
			continue
		}
		for _, decl := range f.ast.Decls {
			checkDoc(t, fset, decl)
		}
	}
}

func checkDoc(t *testing.T, fset *token.FileSet, decl ast.Decl) {
	t.Helper()
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !wellKnown[d.Name.Name] {
			t.Errorf("%s: %s has no comment\n\trule: every public name carries its contract", fset.Position(d.Pos()), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil && ts.Comment == nil {
				t.Errorf("%s: %s has no comment\n\trule: every public name carries its contract", fset.Position(ts.Pos()), ts.Name.Name)
			}
		}
	}
}

// wellKnown methods mean what their interface says.
var wellKnown = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "Read": true, "Write": true, "Close": true, "Len": true, "Less": true, "Swap": true}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return !ok || id.IsExported()
}

// Width: over it, a package is split by noun or the exception is written down here.
func TestWidth(t *testing.T) {
	// path or package: why it may be wider.
	exceptions := map[string]string{
		"drivertest":      "it holds cases only",
		".":               "the types that users hold stand together, a noun a file",
		"internal/wire":   "one protocol, a noun's records a file: what it carries is in packages of their own",
		"guest":           "the methods of one Session stand together; what they do is in guest/internal",
		"files/filestest": "it holds cases only",
	}
	fset, files := load(t)
	total := map[string]int{}
	for _, f := range files {
		if f.test {
			continue
		}
		total[f.pkg] += f.lines
		if f.lines > 600 && exceptions[f.path] == "" && exceptions[f.pkg] == "" {
			t.Errorf("%s has %d lines\n\trule: a file has at most 600", f.path, f.lines)
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				n := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
				if n > 80 && exceptions[f.pkg] == "" {
					t.Errorf("%s: %s has %d lines\n\trule: a function has at most 80", f.path, d.Name.Name, n)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					if it, ok := ts.Type.(*ast.InterfaceType); ok && it.Methods.NumFields() > 7 {
						t.Errorf("%s: interface %s has %d methods\n\trule: at most 7", f.path, ts.Name.Name, it.Methods.NumFields())
					}
				}
			}
		}
	}
	for pkg, n := range total {
		if n > 2500 && exceptions[pkg] == "" {
			t.Errorf("package %s has %d lines\n\trule: a package has at most 2,500", pkg, n)
		}
	}
}

// Shared code behaves by capability, never by a backend's name.
func TestDrivertestNamesNoBackend(t *testing.T) {
	fset, files := load(t)
	names := []string{"docker", "podman", "kubernetes", "ssh", "e2b", "daytona", "process"}
	for _, f := range files {
		if f.pkg != "drivertest" && f.pkg != "files/filestest" || f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			value, _ := strconv.Unquote(lit.Value)
			if slices.Contains(names, value) {
				t.Errorf("%s: %q\n\trule: the suite skips by declared capability, never by a backend's name", fset.Position(n.Pos()), value)
			}
			return true
		})
	}
}

// A main is small: what it does is somewhere that can be tested.
func TestMainsAreSmall(t *testing.T) {
	_, files := load(t)
	for _, f := range files {
		if strings.HasPrefix(f.pkg, "cmd/") && !f.test && f.lines > 40 {
			t.Errorf("%s has %d lines\n\trule: a main has at most 40", f.path, f.lines)
		}
	}
}

// Docs state what is true today: no machine's paths, no package host's names.
func TestDocsNameNoMachine(t *testing.T) {
	root := filepath.Join("..", "..")
	docs, _ := filepath.Glob(filepath.Join(root, "*.md"))
	scripts := []string{filepath.Join(root, "test"), filepath.Join(root, "quickstart"), filepath.Join(root, ".ci", "run")}
	forbidden := []string{"/wor" + "k/", "proxy.golang" + ".org", "deb.debian" + ".org", "registry.npmjs" + ".org"}
	for _, p := range append(docs, scripts...) {
		f, err := os.Open(p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		sc := bufio.NewScanner(f)
		for n := 1; sc.Scan(); n++ {
			for _, bad := range forbidden {
				if strings.Contains(sc.Text(), bad) {
					t.Errorf("%s:%d names %s", p, n, bad)
				}
			}
		}
		f.Close()
	}
}
