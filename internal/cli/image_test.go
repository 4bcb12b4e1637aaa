//go:build linux

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/internal/testutil/registrytest"
)

// tryImages goes through the verbs for images: a build is made once and its sandbox is
// adopted, what a pull fails of is told apart, and a prune removes what nothing uses.
func tryImages(t *testing.T, dir, base string, run func(stdin string, args ...string) (stdout, stderr string, status int)) {
	t.Helper()
	for name, text := range map[string]string{"Dockerfile": "FROM " + base + "\nARG A=none\nRUN echo built-$A | tee /built\n", "bad/Dockerfile": "FROM " + base + "\nRUN exit 9\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, "ctx", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ctx", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, refusing := registrytest.Start(t, registrytest.Options{}), registrytest.Start(t, registrytest.Options{Refuse: true})
	r.Add(t, "app:1", map[string][]byte{"true": []byte("x")})
	name, pulled := "localhost/berth-build:", r.Host+"/app:1"
	for _, test := range []struct {
		args           string
		status         int
		stdout, stderr string // parts of them
	}{
		{"image build --backend docker ctx --no-build", 4, "", "building is not allowed"},
		{"image build --backend docker ctx --build-arg A=x", 0, name, "built-x"},
		{"image build --backend docker ctx --build-arg A=x --quiet --json", 0, `"built":true`, ""},
		{"run --backend docker --build ctx --build-arg A=x -- cat /built", 0, "built-x\n", ""},
		{"image build --backend docker ctx/bad", 2, "", "the build failed"},
		{"image pull --backend docker " + pulled, 0, pulled + "\n", ""},
		{"image pull --backend docker " + refusing.Host + "/app:1", 14, "", "docker login " + refusing.Host},
		{"image pull --backend docker 127.0.0.1:1/app:1", 18, "", "127.0.0.1:1"},
		{"image ls --backend docker", 0, name, ""},
		{"__complete image rm --backend docker ", 0, pulled + "\t", ""},
		{"image rm --backend docker " + pulled, 0, "removed " + pulled, ""},
		{"image rm --backend docker " + pulled, 4, "", "No such image"},
		{"prune", 0, "removed image " + name, ""},
		{"prune --backend docker --json", 0, `"images":[]`, ""},
	} {
		stdout, stderr, status := run("", strings.Split(test.args, " ")...)
		if status != test.status || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("berth %s: status %d, stdout %q, stderr %q; want %d, %q, %q", test.args, status, stdout, stderr, test.status, test.stdout, test.stderr)
		}
	}
}
