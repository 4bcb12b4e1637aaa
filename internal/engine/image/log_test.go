package image

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/internal/engine/image/buildkit"
	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/registry"
)

// What either builder says goes to the log as it comes, and to the end of it that a failed
// build's error has. A message of BuildKit that is none breaks the stream; a log that
// nobody takes does not.
func TestBuildLog(t *testing.T) {
	// A vertex with the name "step", and its output "it speaks".
	trace := base64.StdEncoding.EncodeToString([]byte("\x0a\x0b\x0a\x01a\x1a\x04step*\x00\x1a\x0e\x0a\x01a\x22\x09it speaks"))
	for _, tt := range []struct{ name, in, want, err string }{
		{"classic", `{"stream":"Step 1/1 : FROM x\n"}` + "\n" + `{"status":"s"}`, "Step 1/1 : FROM x\ns\n", ""},
		{"buildkit", `{"id":"moby.buildkit.trace","aux":"` + trace + `"}` + "\n" + `{"id":"moby.image.id","aux":{"ID":"sha256:0"}}`, "#1 step\n", ""},
		{"cut short", `{"id":"moby.buildkit.trace","aux":"` + trace[:12] + `"}`, "", "malformed"},
		{"no base64", `{"id":"moby.buildkit.trace","aux":"%"}`, "", "broken"},
		{"no text", `{"id":"moby.buildkit.trace","aux":{}}`, "", "broken"},
		{"nothing", `{"id":"moby.buildkit.trace"}`, "", "broken"},
	} {
		var out bytes.Buffer
		err := readMessages(strings.NewReader(tt.in), newBuildLog(driver.PrepareOptions{Log: &out}).take)
		if out.String() != tt.want || (err != nil) != (tt.err != "") || err != nil && (!errors.Is(err, errStream) || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, out.String(), err, tt.want, tt.err)
		}
		nobody, sink := io.Pipe()
		nobody.Close()
		log := newBuildLog(driver.PrepareOptions{Log: sink, Progress: func(spec.Progress) {}})
		if again := readMessages(strings.NewReader(tt.in), log.take); (again == nil) != (err == nil) || string(log.end) != tt.want {
			t.Errorf("%s, to nobody: %q, %v", tt.name, log.end, again)
		}
	}
}

// BuildKit gets a login by user and password, or a token without a user, and has a name of
// its own for Docker Hub.
func TestHostKeys(t *testing.T) {
	got := hostKeys(map[string]registry.AuthConfig{
		hubKey:        {Username: "u", Password: "p", ServerAddress: hubKey},
		"r.example:5": {IdentityToken: "t", ServerAddress: "r.example:5"},
	})
	want := map[string]buildkit.Key{"registry-1.docker.io": {User: "u", Secret: "p"}, "r.example:5": {Secret: "t"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
