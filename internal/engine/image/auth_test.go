//go:build unix

package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/spec"
	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/registry"
)

// Credentials are found where docker login puts them: in the file, or with the program that
// it names for the registry or for all.
func TestCredentials(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, script := range map[string]string{
		"good":    `read -r s; printf '{"ServerURL":"%s","Username":"h","Secret":"%s-secret"}' "$s" "$s"`,
		"token":   `echo '{"Username":"<token>","Secret":"t"}'`,
		"none":    `echo "credentials not found in native keychain"; exit 1`,
		"broken":  `echo hunter2 >&2; echo hunter2; exit 3`,
		"garbage": `echo hunter2`,
		"flood":   `head -c 1000000 /dev/zero`,
		"hanging": `exec sleep 1000`,
	} {
		if err := os.WriteFile(filepath.Join(bin, "docker-credential-"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hub := "https://index.docker.io/v1/"
	for _, tt := range []struct {
		name, config, domain string
		want                 registry.AuthConfig
		err                  string
	}{
		{name: "no file", domain: "r.example"},
		{name: "empty", config: `{}`, domain: "r.example"},
		{name: "in the file", config: `{"auths":{"r.example":{"auth":"dTpwOnE="}}}`, domain: "r.example", want: registry.AuthConfig{Username: "u", Password: "p:q", ServerAddress: "r.example"}},
		{name: "by URL", config: `{"auths":{"https://r.example:5/v2/":{"auth":"dTpw"}}}`, domain: "r.example:5", want: registry.AuthConfig{Username: "u", Password: "p", ServerAddress: "r.example:5"}},
		{name: "another's", config: `{"auths":{"r.example.org":{"auth":"dTpw"},"r.example:5":{"auth":"dTpw"}}}`, domain: "r.example"},
		{name: "hub", config: `{"auths":{"` + hub + `":{"identitytoken":"t"}}}`, domain: "docker.io", want: registry.AuthConfig{IdentityToken: "t", ServerAddress: hub}},
		{name: "logged out", config: `{"auths":{"r.example":{}}}`, domain: "r.example"},
		{name: "store", config: `{"credsStore":"good","auths":{"r.example":{}}}`, domain: "r.example", want: registry.AuthConfig{Username: "h", Password: "r.example-secret", ServerAddress: "r.example"}},
		{name: "store has none", config: `{"credsStore":"none","auths":{"r.example":{"auth":"dTpw"}}}`, domain: "r.example", want: registry.AuthConfig{Username: "u", Password: "p", ServerAddress: "r.example"}},
		{name: "helper before store", config: `{"credsStore":"broken","credHelpers":{"r.example":"token"}}`, domain: "r.example", want: registry.AuthConfig{IdentityToken: "t", ServerAddress: "r.example"}},
		{name: "helper of another", config: `{"credHelpers":{"x.example":"broken"}}`, domain: "r.example"},
		{name: "helper fails", config: `{"credsStore":"broken"}`, domain: "r.example", err: "exit status 3"},
		{name: "helper says nothing of use", config: `{"credsStore":"garbage"}`, domain: "r.example", err: "not what such a program says"},
		{name: "helper says too much", config: `{"credsStore":"flood"}`, domain: "r.example", err: "not what such a program says"},
		{name: "helper absent", config: `{"credsStore":"absent"}`, domain: "r.example", err: "docker-credential-absent"},
		{name: "helper is a path", config: `{"credsStore":"../../evil"}`, domain: "r.example", err: "not the name of a program"},
		{name: "bad base64", config: `{"auths":{"r.example":{"auth":"%%"}}}`, domain: "r.example", err: "not base64"},
		{name: "bad JSON", config: `{`, domain: "r.example", err: "config.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.config != "" {
				put(t, filepath.Join(dir, "config.json"), tt.config)
			}
			got, ok, err := keychain{dir: dir}.lookup(context.Background(), tt.domain)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") || spec.HintOf(err) == "" {
					t.Errorf("%v; want %q, with a hint and without what it wrote", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || ok != (tt.want != registry.AuthConfig{}) || diff != "" {
				t.Errorf("%v, %v (-want +got):\n%s", ok, err, diff)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "config.json"), `{"credsStore":"hanging"}`)
	if _, _, err := (keychain{dir: dir}).lookup(ctx, "r.example"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a helper that hangs: %v; want the caller's end", err)
	}
}
