package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/spec"
)

// Mounts, ports and labels are written as people know them from engines' command lines.
func TestContainerFlags(t *testing.T) {
	c := load(t, sources("", map[string][]string{
		"mounts":       {"/a:/b", "rel:/b/c:ro", "/with:colon:/d:shared"},
		"publish":      {"80", "8080:80", "53/udp", "0.0.0.0:8081:80", "127.0.0.1::81", "[::1]:8082:80/tcp"},
		"labels":       {"team=blue", "a=b=c", "flag"},
		"network_mode": {"container:web"},
	}))
	want := Container{
		Mounts: []spec.Mount{{Source: "/a", Target: "/b"}, {Source: "rel", Target: "/b/c", ReadOnly: true}, {Source: "/with:colon", Target: "/d", Shared: true}},
		Ports: []spec.PublishedPort{
			{Container: 80},
			{Container: 80, Host: 8080},
			{Container: 53, Protocol: spec.UDP},
			{Container: 80, Host: 8081, Address: "0.0.0.0"},
			{Container: 81, Address: "127.0.0.1"},
			{Container: 80, Host: 8082, Address: "::1", Protocol: spec.TCP},
		},
		Labels: map[string]string{"team": "blue", "a": "b=c", "flag": ""}, NetworkMode: "container:web",
	}
	if diff := cmp.Diff(want, c.Container); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = load(t, sources("", nil, "HOME=/h", "BERTH_MOUNTS=~/a:/b:ro,/c:/d", "BERTH_PUBLISH=80,81", "BERTH_LABELS=a=b,c=d"))
	want = Container{
		Mounts: []spec.Mount{{Source: "/h/a", Target: "/b", ReadOnly: true}, {Source: "/c", Target: "/d"}},
		Ports:  []spec.PublishedPort{{Container: 80}, {Container: 81}}, Labels: map[string]string{"a": "b", "c": "d"},
	}
	if diff := cmp.Diff(want, c.Container); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestContainerRefusals(t *testing.T) {
	for key, texts := range map[string][]string{
		"mounts":             {"/a", "/a:b", ":/b", "/a:/b:rw", "/a:/b:ro:shared", ""},
		"publish":            {"x", "0", "65536", "-1", "80/sctp", "80:", "a:80", "localhost:80:80", "1.2.3:80:80", ":::80", ""},
		"labels":             {"=x", "dev.berth.owner=x"},
		"network_mode":       {"none", "container:", "a b"},
		"sandbox.gpus":       {"-1", "x", "1.5", "99999"},
		"sandbox.disk_bytes": {"-1", "x", "1z"},
	} {
		for _, text := range texts {
			if c, err := Load(sources("", map[string][]string{key: {text}})); err == nil {
				t.Errorf("%s %q: taken as %+v %+v", key, text, c.Container, c.Sandbox)
			}
		}
	}
}

// A seccomp profile is read where it is named; what is no profile is refused with the name.
func TestSeccompFile(t *testing.T) {
	const profile = `{"defaultAction":"SCMP_ACT_ALLOW"}`
	s := sources("", map[string][]string{"sandbox.seccomp": {"p.json"}, "sandbox.runtime": {"runsc"}, "sandbox.gpus": {"all"}, "sandbox.disk_bytes": {"2g"}, "sandbox.no_new_privileges": {"true"}})
	other := s.ReadFile
	content := profile + "\n"
	s.ReadFile = func(name string) ([]byte, error) {
		if name == "p.json" {
			return []byte(content), nil
		}
		return other(name)
	}
	l, h := load(t, s).Demanded()
	if diff := cmp.Diff(spec.Hardening{Seccomp: profile, Runtime: "runsc", NoNewPrivileges: true}, h); diff != "" {
		t.Errorf("hardening (-want +got):\n%s", diff)
	}
	if want := (spec.Limits{DiskBytes: 2 << 30, GPUs: -1}); l != want {
		t.Errorf("limits %+v, want %+v", l, want)
	}
	for _, content = range []string{"", "unconfined", "{}", profile + "x"} {
		if _, err := Load(s); err == nil || !strings.Contains(err.Error(), "--seccomp") {
			t.Errorf("%q: %v; want it refused", content, err)
		}
	}
	_, err := Load(sources("", map[string][]string{"sandbox.seccomp": {"absent.json"}}))
	if err == nil || !strings.Contains(err.Error(), "absent.json") {
		t.Errorf("a file that is not there: %v", err)
	}
}
