package guestbin

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The sources that name a build are those that the guest links: a change in any of
// them makes another binary.
func TestSourcesOfTheGuest(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Module", "../../cmd/berth-guest")
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var pkg struct {
			ImportPath string
			Module     *struct{ Path string }
		}
		if err := dec.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		if pkg.Module != nil && pkg.Module.Path == modulePath {
			linked = append(linked, strings.TrimPrefix(pkg.ImportPath, modulePath+"/"))
		}
	}
	slices.Sort(linked)
	if diff := cmp.Diff(linked, guestPackages); diff != "" {
		t.Errorf("go list has the first, build.go the second:\n%s", diff)
	}
}

// Every source that the guest is made of, go.mod and go.sum have a part in the name
// of the cache entry; tests have none.
func TestSourceName(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	name := func() string {
		n, err := sourceName(root, "linux-amd64")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sources := []string{"go.mod", "go.sum"}
	for _, pkg := range guestPackages {
		sources = append(sources, pkg+"/a.go")
	}
	for _, s := range sources {
		write(s, "one")
	}
	seen := map[string]string{name(): "nothing"}
	for _, s := range sources {
		write(s, "two")
		n := name()
		if other, ok := seen[n]; ok {
			t.Errorf("a change of %s gives the name of a change of %s", s, other)
		}
		seen[n] = s
	}
	before := name()
	write("spec/a_test.go", "x")
	write("spec/README", "x")
	if name() != before {
		t.Error("a test has a part in the name")
	}
}

// Only the root of this very module, with the guest's main in it, is taken for its
// source.
func TestIsModule(t *testing.T) {
	root, other := t.TempDir(), t.TempDir()
	for dir, text := range map[string]string{root: "module " + modulePath + "\n", other: "module " + modulePath + "x\n"} {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if isModule(root) {
		t.Error("taken without the guest's main")
	}
	for _, dir := range []string{root, other} {
		if err := os.MkdirAll(filepath.Join(dir, "cmd", "berth-guest"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if !isModule(root) || isModule(other) || isModule(filepath.Join(root, "missing")) {
		t.Errorf("%t %t", isModule(root), isModule(other))
	}
}
