package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
)

// newContext makes a context of files, and its Dockerfile.
func newContext(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func hashOf(t *testing.T, b spec.Build, platform string) string {
	t.Helper()
	name, err := Name(context.Background(), b, platform)
	if err != nil {
		t.Fatal(err)
	}
	hash, ok := strings.CutPrefix(name, "localhost/berth-build:")
	if !ok || len(hash) != 12 {
		t.Fatalf("name %q", name)
	}
	return hash
}

// The identity is the documented one, computed here by hand: names in use depend on it.
func TestIdentityVector(t *testing.T) {
	dir := newContext(t, map[string]string{"Dockerfile": "FROM scratch\n", "b/x": "1", "a": ""})
	part := func(s string) string { return fmt.Sprintf("\x00\x00\x00\x00\x00\x00\x00%c%s", len(s), s) }
	var text string
	for _, s := range []string{"FROM scratch\n", "Dockerfile", "FROM scratch\n", "a", "", "b/x", "1", "A", "2", "B", "1"} {
		text += part(s)
	}
	sum := sha256.Sum256([]byte(text))
	b := spec.Build{Context: dir, Args: map[string]string{"B": "1", "A": "2"}}
	if got, want := hashOf(t, b, ""), hex.EncodeToString(sum[:])[:12]; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// Equal files and arguments are one image, wherever they are; whatever differs in the
// Dockerfile, a path, a content or an argument is another. Links, empty directories and
// modes are not covered, a .dockerignore hides nothing.
func TestIdentity(t *testing.T) {
	base := map[string]string{"Dockerfile": "FROM scratch", "a": "12", "d/b": "3"}
	at := func(change func(dir string, b *spec.Build)) string {
		dir := newContext(t, base)
		b := spec.Build{Context: dir, Args: map[string]string{"A": "1"}}
		if change != nil {
			change(dir, &b)
		}
		return hashOf(t, b, "")
	}
	want := at(nil)
	for name, change := range map[string]func(dir string, b *spec.Build){
		"elsewhere":             func(string, *spec.Build) {},
		"named dockerfile":      func(dir string, b *spec.Build) { b.Dockerfile = filepath.Join(dir, "Dockerfile") },
		"trailing slash":        func(dir string, b *spec.Build) { b.Context += "/" },
		"empty directory":       func(dir string, _ *spec.Build) { os.Mkdir(filepath.Join(dir, "empty"), 0o755) },
		"link":                  func(dir string, _ *spec.Build) { os.Symlink("a", filepath.Join(dir, "link")) },
		"link to nowhere":       func(dir string, _ *spec.Build) { os.Symlink("/etc/shadow", filepath.Join(dir, "link")) },
		"mode":                  func(dir string, _ *spec.Build) { os.Chmod(filepath.Join(dir, "a"), 0o755) },
		"outside, equal bytes":  func(_ string, b *spec.Build) { b.Dockerfile = filepath.Join(newContext(t, base), "Dockerfile") },
		"linked directory deep": func(dir string, _ *spec.Build) { os.Symlink("..", filepath.Join(dir, "d/up")) },
	} {
		if got := at(change); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	seen := map[string]string{want: "base"}
	for name, change := range map[string]func(dir string, b *spec.Build){
		"content":    func(dir string, _ *spec.Build) { put(t, filepath.Join(dir, "a"), "13") },
		"dockerfile": func(dir string, _ *spec.Build) { put(t, filepath.Join(dir, "Dockerfile"), "FROM busybox") },
		"other dockerfile": func(dir string, b *spec.Build) {
			b.Dockerfile = filepath.Join(newContext(t, map[string]string{"x": "FROM b"}), "x")
		},
		"name": func(dir string, _ *spec.Build) { os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")) },
		"moved byte": func(dir string, _ *spec.Build) {
			put(t, filepath.Join(dir, "a"), "1")
			put(t, filepath.Join(dir, "d/b"), "23")
		},
		"empty file":        func(dir string, _ *spec.Build) { put(t, filepath.Join(dir, "e"), "") },
		"ignored file":      func(dir string, _ *spec.Build) { put(t, filepath.Join(dir, ".dockerignore"), "a\n") },
		"argument's value":  func(_ string, b *spec.Build) { b.Args["A"] = "2" },
		"argument's name":   func(_ string, b *spec.Build) { b.Args = map[string]string{"B": "1"} },
		"no argument":       func(_ string, b *spec.Build) { b.Args = nil },
		"one more argument": func(_ string, b *spec.Build) { b.Args["B"] = "" },
	} {
		got := at(change)
		if other, taken := seen[got]; taken {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[got] = name
	}
	if hashOf(t, spec.Build{Context: newContext(t, base), Args: map[string]string{"A": "1"}}, "linux/arm64") == want {
		t.Error("another platform has the same hash")
	}
}

// What cannot be sent is refused before anything is asked, with its name.
func TestHostileContexts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(t *testing.T, dir string) spec.Build
		want  error
		text  string
	}{
		{"no context", func(_ *testing.T, dir string) spec.Build { return spec.Build{Context: dir + "/absent"} }, spec.ErrInvalidPath, "absent"},
		{"a file for a context", func(_ *testing.T, dir string) spec.Build { return spec.Build{Context: dir + "/Dockerfile"} }, spec.ErrInvalidPath, "not a directory"},
		{"no dockerfile", func(_ *testing.T, dir string) spec.Build {
			os.Remove(dir + "/Dockerfile")
			return spec.Build{Context: dir}
		}, spec.ErrInvalidPath, "dockerfile"},
		{"a dockerfile out of the context by a link", func(_ *testing.T, dir string) spec.Build {
			os.Remove(dir + "/Dockerfile")
			os.Symlink("/etc/passwd", dir+"/Dockerfile")
			return spec.Build{Context: dir}
		}, spec.ErrInvalidPath, "escapes"},
		{"a directory for a dockerfile", func(_ *testing.T, dir string) spec.Build { return spec.Build{Context: dir, Dockerfile: dir} }, spec.ErrInvalidPath, "not a regular file"},
		{"2001 files", func(t *testing.T, dir string) spec.Build {
			for i := range spec.MaxContextFiles {
				put(t, fmt.Sprintf("%s/d%d/%d", dir, i%7, i), "")
			}
			return spec.Build{Context: dir}
		}, spec.ErrTooLarge, "2000"},
		{"endless directories", func(t *testing.T, dir string) spec.Build {
			for i := range maxEntries {
				if err := os.Mkdir(fmt.Sprintf("%s/%d", dir, i), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			return spec.Build{Context: dir}
		}, spec.ErrTooLarge, "2000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Name(context.Background(), tt.build(t, newContext(t, map[string]string{"Dockerfile": "FROM scratch"})), "")
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("%v; want %v with %q", err, tt.want, tt.text)
			}
			if tt.want == spec.ErrTooLarge && !strings.Contains(spec.HintOf(err), "--build") {
				t.Errorf("hint %q does not name the setting", spec.HintOf(err))
			}
		})
	}
}

// sent is the archive of a build as an engine gets it: type, mode and content by name.
func sent(t *testing.T, b spec.Build) (map[string]string, string) {
	t.Helper()
	s, err := openSource(b, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hash, err := s.hash(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := s.send(&buf, hash); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(&buf); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return out, s.name(hash)
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: owner %d:%d %q, %v", h.Name, h.Uid, h.Gid, h.Uname, err)
		}
		out[h.Name] = fmt.Sprintf("%c %o %s%s", h.Typeflag, h.Mode, data, h.Linkname)
	}
}

// The context is sent whole, links as links, ignored files too. A Dockerfile from elsewhere
// is sent beside it and kept out of what a COPY copies.
func TestSentContext(t *testing.T) {
	dir := newContext(t, map[string]string{"Dockerfile": "FROM scratch", "d/f": "1", ".dockerignore": "d\n"})
	os.Symlink("/etc/passwd", filepath.Join(dir, "link"))
	os.Chmod(filepath.Join(dir, "d/f"), 0o755|os.ModeSetuid)
	got, name := sent(t, spec.Build{Context: dir})
	want := map[string]string{"Dockerfile": "0 644 FROM scratch", "d/": "5 755 ", "d/f": "0 755 1", ".dockerignore": "0 644 d\n", "link": "2 777 /etc/passwd"}
	if diff := cmp.Diff(want, got); diff != "" || name != "Dockerfile" {
		t.Errorf("dockerfile %s (-want +got):\n%s", name, diff)
	}
	other := filepath.Join(t.TempDir(), "other")
	put(t, other, "FROM busybox")
	got, name = sent(t, spec.Build{Context: dir, Dockerfile: other})
	if got[name] != "0 644 FROM busybox" || got[".dockerignore"] != "0 644 d\n"+name+"\n" || got["Dockerfile"] == "" {
		t.Errorf("with a Dockerfile from elsewhere: %q", got)
	}
}

// A context that changes while it is sent gets no image under the old name: its archive has
// no end.
func TestChangedContext(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"content":       func(file string) error { return os.WriteFile(file, []byte("b"), 0o644) },
		"size":          func(file string) error { return os.WriteFile(file, []byte("aa"), 0o644) },
		"gone":          os.Remove,
		"another file":  func(file string) error { return os.Rename(filepath.Join(filepath.Dir(file), "other"), file) },
		"a link out":    func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file)) },
		"a directory":   func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) },
		"now a link in": func(file string) error { return errors.Join(os.Remove(file), os.Symlink("other", file)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := newContext(t, map[string]string{"Dockerfile": "FROM scratch", "f": "a", "other": "a"})
			s, err := openSource(spec.Build{Context: dir}, "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			hash, err := s.hash(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := change(filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
			var buf bytes.Buffer
			if err := s.send(&buf, hash); err == nil || strings.Contains(buf.String(), "/etc/hostname") {
				t.Errorf("sent: %v", err)
			}
		})
	}
}

// Credentials are looked up for the registries that a Dockerfile names, and no others.
func TestBases(t *testing.T) {
	for _, tt := range []struct {
		dockerfile string
		args       map[string]string
		want       []string
	}{
		{"FROM scratch\n", nil, nil},
		{"from busybox\n", nil, []string{"busybox"}},
		{"FROM --platform=linux/arm64 a.example/x:1 AS one\nFROM one\nCOPY --from=b.example/y /a /b\nCOPY --from=one /a /b\nCOPY --from=0 /a /b\n", nil, []string{"a.example/x:1", "b.example/y"}},
		{"ARG R=a.example/\nARG V\nFROM ${R}x:$V\n", map[string]string{"V": "2"}, []string{"a.example/x:2"}},
		{"ARG R=a.example/\nFROM ${R}x\nFROM a.example/x\n", map[string]string{"R": "b.example/"}, []string{"b.example/x", "a.example/x"}},
		{"RUN --mount=type=bind,from=a.example/x,target=/m --mount=type=cache,target=/c --mount=type=bind,from=one cp --mount=from=b.example/y /m\n", nil, []string{"a.example/x"}},
		{"FROM\nFROM $MISSING\nRUN echo FROM x\n", nil, nil},
	} {
		s := &source{dockerfile: []byte(tt.dockerfile), args: tt.args}
		if diff := cmp.Diff(tt.want, s.bases()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.dockerfile, diff)
		}
	}
}
