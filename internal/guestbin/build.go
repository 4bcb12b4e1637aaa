package guestbin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// guestPackages are the packages of this module that the guest binary links. A test
// compares them with what the go command says.
var guestPackages = []string{
	"cmd/berth-guest", "files", "files/internal/feed", "files/internal/ignore", "files/internal/nfa", "files/internal/pattern", "files/internal/source",
	"files/localfs", "files/localfs/internal/beneath", "files/localfs/internal/kernelfile", "files/localfs/internal/sys", "files/localfs/internal/watch", "files/tree",
	"internal/agent", "internal/agent/confine", "internal/agent/countdown", "internal/agent/direct", "internal/agent/drop", "internal/agent/event", "internal/agent/fileserver", "internal/agent/job", "internal/agent/joblog", "internal/agent/lapsed", "internal/agent/limit", "internal/agent/oom", "internal/agent/pack", "internal/agent/peer", "internal/agent/port", "internal/agent/proc", "internal/agent/relay", "internal/agent/starter", "internal/agent/stream", "internal/agent/terminal", "internal/agent/usage", "internal/agent/wall", "internal/cgroup", "internal/environ", "internal/gitindex", "internal/idmap", "internal/openat2", "internal/place", "internal/place/begin", "internal/place/made", "internal/place/remote", "internal/procstat", "internal/scrollback", "internal/tarstream", "internal/vt", "internal/wire", "spec",
}

// Build returns the binary that this module's source makes: from the cache if it is
// there, else built with the local Go toolchain, but with none that lies in one of the
// untrusted directories. progress, which may be nil, is called before a build.
func (c *Cache) Build(ctx context.Context, goos, goarch string, untrusted []string, progress func(spec.Progress)) (Bin, error) {
	platform := goos + "-" + goarch
	m := module()
	released := m != nil && m.Replace == nil && m.Sum != ""
	if released {
		// A released version never changes, so its source need not be at hand.
		if bin, ok := c.get(releaseName(platform, m.Version, m.Sum)); ok {
			return bin, nil
		}
	}
	goTool, toolErr := findGo(untrusted)
	root, err := sourceRoot(ctx, goTool)
	if err != nil {
		return Bin{}, ctxFirst(ctx, Nowhere(errors.Join(err, toolErr)))
	}
	name := ""
	if released && strings.HasSuffix(filepath.ToSlash(root), "@"+m.Version) {
		name = releaseName(platform, m.Version, m.Sum)
	} else if name, err = sourceName(root, platform); err != nil {
		return Bin{}, Nowhere(err)
	}
	return c.make(ctx, name, func(path string) error {
		if toolErr != nil {
			return Nowhere(toolErr)
		}
		if progress != nil {
			progress(spec.Progress{Step: "guest: build", Message: platform})
		}
		return compile(ctx, goTool, root, goos, goarch, path)
	})
}

// compile builds the guest in its own module, whatever the caller's build looks like:
// no workspace, no flags from the environment, no cgo, the oldest instruction set.
func compile(ctx context.Context, goTool, root, goos, goarch, path string) error {
	cmd := exec.CommandContext(ctx, goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./cmd/berth-guest")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GO111MODULE=on")
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return ctxFirst(ctx, buildFailed(err, out.String()))
	}
	return nil
}

// findGo finds the go command: on the PATH, or where this program's own toolchain is. One
// that lies in one of the untrusted directories is passed over: it would be run outside.
func findGo(untrusted []string) (string, error) {
	path, err := exec.LookPath("go")
	if err == nil && !liesIn(path, untrusted) {
		return path, nil
	}
	const usual = "/usr/local/go/bin/go"
	if info, err := os.Stat(usual); err == nil && info.Mode().IsRegular() {
		return usual, nil
	}
	if err == nil {
		return "", fmt.Errorf("the go command on the PATH lies where commands can replace it: %s", path)
	}
	return "", errors.New("the go command is not on the PATH")
}

// liesIn reports whether path, as it is spelled or with its links resolved, lies in one
// of the directories.
func liesIn(path string, dirs []string) bool {
	both := func(path string) []string {
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			return []string{filepath.Clean(path), resolved}
		}
		return []string{filepath.Clean(path)}
	}
	for _, dir := range dirs {
		for _, d := range both(dir) {
			for _, p := range both(path) {
				if rel, err := filepath.Rel(d, p); err == nil && filepath.IsLocal(rel) {
					return true
				}
			}
		}
	}
	return false
}

// sourceRoot finds the directory of this module's source: where this very file was
// compiled from, or where the go command keeps the version that this program was
// built with.
func sourceRoot(ctx context.Context, goTool string) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if root := filepath.Join(filepath.Dir(file), "..", ".."); isModule(root) {
			return root, nil
		}
	}
	m := module()
	if m == nil {
		return "", errors.New("this program does not know which version of the module it has")
	}
	if r := m.Replace; r != nil {
		if filepath.IsAbs(r.Path) && isModule(r.Path) {
			return r.Path, nil
		}
		if r.Version == "" {
			return "", fmt.Errorf("the source that replaces %s is not at %s", modulePath, r.Path)
		}
		m = r
	}
	if m.Version == "" || m.Version == "(devel)" {
		return "", errors.New("this program was built from a source tree that is not here")
	}
	if goTool == "" {
		return "", fmt.Errorf("the source of %s@%s is not here", m.Path, m.Version)
	}
	return download(ctx, goTool, m.Path+"@"+m.Version)
}

// isModule reports whether dir is the root of this module, with the guest's main.
func isModule(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(data), "\n")
	_, err = os.Stat(filepath.Join(dir, "cmd", "berth-guest"))
	return strings.TrimSpace(first) == "module "+modulePath && err == nil
}

// download has the go command fetch a version of the module, as the user's own
// settings for modules allow, and returns where it is.
func download(ctx context.Context, goTool, version string) (string, error) {
	// In an empty directory no go.mod has a say.
	dir, err := os.MkdirTemp("", "berth-guest-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, goTool, "mod", "download", "-json", version)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GO111MODULE=on")
	out, err := cmd.Output() // with an Error in it where the exit status is 1
	var answer struct{ Dir, Error string }
	switch jsonErr := json.Unmarshal(out, &answer); {
	case answer.Error != "":
		return "", errors.New(answer.Error)
	case err != nil:
		return "", fmt.Errorf("go mod download: %w", err)
	case jsonErr != nil:
		return "", fmt.Errorf("go mod download: %w", jsonErr)
	case !isModule(answer.Dir):
		return "", fmt.Errorf("%s has no source of the guest", version)
	}
	return answer.Dir, nil
}

func releaseName(platform, version, sum string) string {
	h := sha256.Sum256([]byte(version + " " + sum))
	return platform + "-" + hex.EncodeToString(h[:8])
}

// sourceName names the cache entry of what a source tree makes: by the content of
// everything of this module that the guest binary is made of, and by the toolchain's
// version as far as this program knows it.
func sourceName(root, platform string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := hashFile(h, root, name); err != nil {
			return "", err
		}
	}
	for _, pkg := range guestPackages {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(pkg)))
		if err != nil {
			return "", err
		}
		for _, e := range entries { // in the order of their names
			if n := e.Name(); e.Type().IsRegular() && strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") {
				if err := hashFile(h, root, pkg+"/"+n); err != nil {
					return "", err
				}
			}
		}
	}
	return platform + "-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func hashFile(w io.Writer, root, name string) error {
	data, err := fs.ReadFile(os.DirFS(root), name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %d\n%s\n", name, len(data), data)
	return err
}

// tail is the last part of a program's output, for a message.
type tail struct{ bytes.Buffer }

// maxTail is how much of a failed build is quoted.
const maxTail = 700

func (t *tail) String() string {
	b := bytes.TrimSpace(t.Bytes())
	if len(b) > maxTail {
		b = append([]byte("..."), b[len(b)-maxTail:]...)
	}
	return string(b)
}

// buildFailed is the answer to a source tree that does not build.
func buildFailed(err error, output string) error {
	text := err.Error()
	if output != "" {
		text += ": " + output
	}
	return &spec.Error{Code: spec.CodeUnavailable, Err: fmt.Errorf("the guest binary was not built: %s", text), Hint: waysHint}
}
