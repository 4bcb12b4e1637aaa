//go:build linux

package docker_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/spec"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// What cannot be had is one line that says what and why, by its code, and what can be
// done about it; nothing of it is left.
func TestErrorsHaveCauseAndCure(t *testing.T) {
	o, ctx := testOptions(t), testContext(t)
	d := newDriver(t, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, tt := range []struct {
		name       string
		change     func(*spec.Spec)
		want       error
		text, hint string
	}{
		{"unknown runtime", func(s *spec.Spec) { s.Hardening.Runtime = "nosuch" }, spec.ErrUnsupported, "nosuch", "runtime"},
		{"workdir is a file", func(s *spec.Spec) { s.Workdir = "/etc/passwd" }, spec.ErrUnavailable, "/etc/passwd: not a directory", "--workdir"},
		{"user that is not there", func(s *spec.Spec) { s.Image = withUser(t, s.Image, "nobodyhere") }, spec.ErrUnavailable, "nobodyhere", "--sandbox-user"},
		{"missing mount", func(s *spec.Spec) { s.Mounts = []spec.Mount{{Source: "/nonexistent", Target: "/m"}} }, spec.ErrInvalid, "/nonexistent", "the engine runs on"},
		{"port in use", func(s *spec.Spec) {
			s.Network = spec.NetworkOpen
			s.Ports = []spec.PublishedPort{{Container: 80, Host: taken}}
		}, spec.ErrUnavailable, "in use", "let the engine choose"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := busybox(t)
			tt.change(&s)
			sb, err := berth.Provision(ctx, d, s)
			if err == nil {
				_ = sb.Destroy(ctx)
				t.Fatal("no error")
			}
			wantIs(t, "provision", err, tt.want)
			if text := err.Error(); !strings.Contains(text, tt.text) || strings.Contains(text, "\n") {
				t.Errorf("error %q; want one line with %q", text, tt.text)
			}
			if hint := spec.HintOf(err); !strings.Contains(hint, tt.hint) {
				t.Errorf("hint %q; want one with %q", hint, tt.hint)
			}
		})
	}
}

// withUser returns an image that is another one with a user.
func withUser(t *testing.T, image, user string) string {
	t.Helper()
	ctx, api := testContext(t), engine.Client(t)
	c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: image, Cmd: []string{"true"}}})
	if err != nil {
		t.Fatal(err)
	}
	name := "berth-test/user:" + user
	_, err = api.ContainerCommit(ctx, c.ID, client.ContainerCommitOptions{Reference: name, Config: &container.Config{User: user}})
	if _, removed := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true}); err != nil || removed != nil {
		t.Fatal(err, removed)
	}
	t.Cleanup(func() { _, _ = api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{}) })
	return name
}
