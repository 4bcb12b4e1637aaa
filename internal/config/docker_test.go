package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/backend/docker"
)

// Which engine is meant is found as Docker's command line finds it: DOCKER_HOST, then
// DOCKER_CONTEXT, then the file, whose host goes before its context; the current context
// and the sockets of engines without root come after all of them.
func TestDockerEngine(t *testing.T) {
	type options = docker.Options
	usual := []string{"/home/me/.docker/run/docker.sock"}
	file := "docker.host = 'tcp://file:1'\ndocker.context = 'infile'\n"
	for _, test := range []struct {
		name string
		s    Sources
		want options
	}{
		{"nothing", sources("", nil), options{ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"no home", Sources{ReadFile: sources("", nil).ReadFile}, options{}},
		{"host and context", sources("", nil, "DOCKER_HOST=ssh://h", "DOCKER_CONTEXT=c"), options{Host: "ssh://h", Context: "c", ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"the file", sources(file, nil), options{Host: "tcp://file:1", Context: "infile", ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"a context before the file", sources(file, nil, "DOCKER_CONTEXT=c"), options{Context: "c", ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"TLS", sources("", nil, "DOCKER_TLS_VERIFY=1", "DOCKER_CERT_PATH=/certs"), options{TLS: true, TLSDir: "/certs", ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"BuildKit", sources("docker.buildkit = true\n", nil), options{BuildKit: new(true), ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"no BuildKit", sources("docker.buildkit = true\n", nil, "DOCKER_BUILDKIT=0"), options{BuildKit: new(false), ConfigDir: "/home/me/.docker", Sockets: usual}},
		{"elsewhere", sources("docker.tls_verify = '1'\n", nil, "DOCKER_CONFIG=/etc/d", "XDG_RUNTIME_DIR=/run/user/7"), options{TLS: true, ConfigDir: "/etc/d", Sockets: append([]string{"/run/user/7/docker.sock"}, usual...)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := load(t, test.s).Backends().Docker
			got := options{Host: d.Host, Context: d.Context, ConfigDir: d.ConfigDir, Sockets: d.Sockets, TLS: d.TLS, TLSDir: d.TLSDir, BuildKit: d.BuildKit}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("engine (-want +got):\n%s", diff)
			}
		})
	}
}
