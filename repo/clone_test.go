//go:build unix

package repo_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/files/tree"
	"github.com/berth-dev/berth/repo"
	"github.com/berth-dev/berth/spec"
)

const token = "t0ken-that/is+secret"

// served serves the repositories below root by git's own program, to who knows the token,
// and says how it is called.
func served(t *testing.T, root string, asked *atomic.Int32) string {
	t.Helper()
	backend := filepath.Join(git(t, root, "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Fatal(err)
	}
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, password, _ := r.BasicAuth(); name != "x-access-token" || password != token {
			asked.Add(1)
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "/slow/") {
			<-r.Context().Done()
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func secret(_ context.Context, host string) (string, error) {
	if !strings.HasPrefix(host, "127.0.0.1:") {
		return "", errors.New("asked for the token of " + host)
	}
	return token, nil
}

// sink takes an archive as a place would.
type sink struct {
	bytes.Buffer
	o tree.ImportOptions
}

func (s *sink) Import(_ context.Context, _ string, r io.Reader, o tree.ImportOptions) (tree.Stats, error) {
	s.o = o
	_, err := io.Copy(s, r)
	return tree.Stats{}, err
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// A clone by HTTP is whole and works, comes from a URL without a secret, and what is
// shipped of it has none, in no form; nor does any process or file of its making.
func TestClone(t *testing.T) {
	root, _ := repository(t)
	top, temp := filepath.Join(root, "project"), filepath.Join(root, "temp")
	first := git(t, top, "rev-parse", "HEAD")
	put(t, top+"/.gitattributes", "* filter=evil\n")
	put(t, top+"/dir/tool", "tool")
	must(0, errors.Join(os.Mkdir(temp, 0o700), os.Chmod(top+"/dir/tool", 0o755), os.Symlink("tool", top+"/dir/in"), os.Symlink("/etc/passwd", top+"/out")))
	git(t, top, "add", ".")
	git(t, top, "commit", "-q", "-m", "second")
	git(t, top, "tag", "v1")
	git(t, top, "branch", "other", first)
	var asked atomic.Int32
	base := served(t, root, &asked)
	// The user's own configuration is not used.
	put(t, root+"/home/.gitconfig", "[filter \"evil\"]\n\tsmudge = touch "+root+"/marker; cat\n[credential]\n\thelper = store\n[core]\n\thooksPath = "+root+"/hooks\n")
	put(t, root+"/hooks/post-checkout", "#!/bin/sh\ntouch "+root+"/marker\n")
	must(0, os.Chmod(root+"/hooks/post-checkout", 0o755))
	t.Setenv("GIT_DIR", root+"/elsewhere")
	o := repo.CloneOptions{URL: base + "/project/.git", Token: secret, TempDir: temp}
	for _, test := range []struct {
		ref, file, branch string
		depth             int
	}{{"", "dir/tool", "main", 0}, {"", "dir/tool", "main", 1}, {"other", "file", "other", 0}, {"v1", "dir/tool", "HEAD", 1}, {first, "file", "HEAD", 0}} {
		o.Ref, o.Depth = test.ref, test.depth
		c, err := repo.Clone(within(t), o)
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		os.Unsetenv("GIT_DIR")
		if got := git(t, c.Dir(), "rev-parse", "--abbrev-ref", "HEAD"); got != test.branch || !exists(filepath.Join(c.Dir(), test.file)) {
			t.Errorf("%+v: on %s", test, got)
		}
		if got := git(t, c.Dir(), "-c", "filter.evil.smudge=", "status", "--short"); got != "" || c.Commit != git(t, c.Dir(), "rev-parse", "HEAD") {
			t.Errorf("%+v: %s: %q", test, c.Commit, got)
		}
		if test.depth > 0 && git(t, c.Dir(), "rev-list", "--count", "HEAD") != "1" {
			t.Errorf("%+v: more came along", test)
		}
		if got := git(t, c.Dir(), "remote", "get-url", "origin"); got != o.URL || c.URL != got {
			t.Errorf("%+v: from %q", test, got)
		}
		wantNoSecret(t, c)
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		wantEmpty(t, temp)
	}
	if exists(root + "/marker") {
		t.Error("a program of the user's configuration has run")
	}
}

// wantNoSecret ships a clone and looks through every byte of what a place would get.
func wantNoSecret(t *testing.T, c *repo.Cloned) {
	t.Helper()
	var got sink
	stats, err := c.Ship(within(t), &got, "")
	if err != nil || !got.o.Empty {
		t.Fatalf("ship: %+v, %v", got.o, err)
	}
	if exists(c.Dir()+"/out") && stats.Skipped != 1 {
		t.Errorf("ship: %+v, want the link out of the tree left out", stats)
	}
	host, _ := os.Hostname()
	for r := tar.NewReader(&got); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data := must(io.ReadAll(r))
		if strings.HasPrefix(h.Name, ".git/hooks/") || strings.HasPrefix(h.Name, ".git/logs/") {
			t.Errorf("shipped: %s", h.Name)
		}
		for _, bad := range []string{token, base64.StdEncoding.EncodeToString([]byte(token)), base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token)), "x-access-token", "@" + host} {
			if strings.Contains(h.Name+string(data), bad) {
				t.Errorf("%s holds %q", h.Name, bad)
			}
		}
		if h.Name == "dir/tool" && h.Mode != 0o755 || h.Name == "out" {
			t.Errorf("shipped: %s %o", h.Name, h.Mode)
		}
	}
}

// What cannot be cloned is said by its code, without the secret, and leaves nothing: no
// file, and no process.
func TestCloneRefused(t *testing.T) {
	root, _ := repository(t)
	temp := filepath.Join(root, "temp")
	must(0, os.Mkdir(temp, 0o700))
	big := filepath.Join(root, "big")
	git(t, root, "init", "-q", "big")
	put(t, big+"/zeros", strings.Repeat("0", 8<<20))
	git(t, big, "add", ".")
	git(t, big, "commit", "-q", "-m", "big")
	git(t, root, "init", "-q", "--bare", "slow.git")
	var asked atomic.Int32
	base := served(t, root, &asked)
	wrong := func(context.Context, string) (string, error) { return token + "x", nil }
	lines := func(context.Context, string) (string, error) { return "a\nhost=evil", nil }
	for name, test := range map[string]struct {
		o    repo.CloneOptions
		code spec.Code
	}{
		"nothing":              {repo.CloneOptions{}, spec.CodeInvalid},
		"a helper of git":      {repo.CloneOptions{URL: "ext::sh -c touch% " + root + "/marker"}, spec.CodeInvalid},
		"an option":            {repo.CloneOptions{URL: "--upload-pack=touch " + root + "/marker"}, spec.CodeInvalid},
		"an option for ssh":    {repo.CloneOptions{URL: "ssh://-oProxyCommand=touch/x"}, spec.CodeInvalid},
		"an option as a user":  {repo.CloneOptions{URL: "ssh://-oProxyCommand=x@host/x"}, spec.CodeInvalid},
		"git's own protocol":   {repo.CloneOptions{URL: "git://example.com/x"}, spec.CodeInvalid},
		"http elsewhere":       {repo.CloneOptions{URL: "http://example.com/x"}, spec.CodeInvalid},
		"a password":           {repo.CloneOptions{URL: "https://u:" + token + "@example.com/x"}, spec.CodeInvalid},
		"a token as a user":    {repo.CloneOptions{URL: "https://plain-token@example.com/x"}, spec.CodeInvalid},
		"a token in the query": {repo.CloneOptions{URL: "https://example.com/x?t=" + token}, spec.CodeInvalid},
		"a URL that is broken": {repo.CloneOptions{URL: "https://u:" + token + "%zz@example.com/x"}, spec.CodeInvalid},
		"an option as a ref":   {repo.CloneOptions{URL: base + "/project/.git", Ref: "--mirror"}, spec.CodeInvalid},
		"no commit":            {repo.CloneOptions{URL: base + "/project/.git", Ref: strings.Repeat("0", 40)}, spec.CodeInvalid},
		"a token of two lines": {repo.CloneOptions{URL: base + "/project/.git", Token: lines}, spec.CodeInvalid},
		"no token":             {repo.CloneOptions{URL: base + "/project/.git"}, spec.CodePermission},
		"the wrong token":      {repo.CloneOptions{URL: base + "/project/.git", Token: wrong}, spec.CodePermission},
		"no repository":        {repo.CloneOptions{URL: base + "/" + strings.ReplaceAll(token, "/", "%2F") + ".git", Token: secret}, spec.CodeNotFound},
		"no directory":         {repo.CloneOptions{URL: root + "/nowhere"}, spec.CodeNotFound},
		"no such branch":       {repo.CloneOptions{URL: base + "/project/.git", Ref: "nowhere", Token: secret}, spec.CodeNotFound},
		"no such commit":       {repo.CloneOptions{URL: base + "/project/.git", Ref: strings.Repeat("1", 40), Token: secret}, spec.CodeNotFound},
		"nobody answers":       {repo.CloneOptions{URL: "http://127.0.0.1:1/x"}, spec.CodeUnavailable},
		"too large unpacked":   {repo.CloneOptions{URL: big, MaxBytes: 1 << 20}, spec.CodeTooLarge},
		"too slow":             {repo.CloneOptions{URL: base + "/slow/.git", Token: secret, Timeout: 500 * time.Millisecond}, spec.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.TempDir = temp
			c, err := repo.Clone(within(t), test.o)
			wantCode(t, test.o.Ref, err, test.code)
			if err == nil {
				c.Close()
				return
			}
			if text := err.Error() + spec.HintOf(err); strings.Contains(text, token) || strings.Contains(text, strings.ReplaceAll(token, "/", "%2F")) {
				t.Errorf("the error holds the token: %s", text)
			}
			wantEmpty(t, temp)
		})
	}
	if exists(root + "/marker") {
		t.Error("the URL was a program")
	}
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	if _, err := repo.Clone(ctx, repo.CloneOptions{URL: base + "/slow/.git", Token: secret, TempDir: temp}); !errors.Is(err, context.DeadlineExceeded) || spec.CodeOf(err) != "" {
		t.Errorf("cancelled: %v", err)
	}
	wantEmpty(t, temp)
	if out, err := exec.Command("pgrep", "-f", temp).Output(); err == nil {
		t.Errorf("processes left: %s", out)
	}
}

// An empty repository is cloned, and so is one by its path and by file URL.
func TestCloneHere(t *testing.T) {
	root, _ := repository(t)
	git(t, root, "init", "-q", "empty")
	for url, commit := range map[string]string{root + "/empty": "", "file://" + root + "/project": git(t, root+"/project", "rev-parse", "HEAD")} {
		var told atomic.Int64
		c, err := repo.Clone(within(t), repo.CloneOptions{URL: url, TempDir: root, Progress: func(p spec.Progress) { told.Store(p.Done) }})
		if err != nil || c.Commit != commit {
			t.Fatalf("%s: %+v, %v", url, c, err)
		}
		wantNoSecret(t, c)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
