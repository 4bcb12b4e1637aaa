package verb

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/berth-dev/berth"
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/internal/config"
	"github.com/berth-dev/berth/spec"
)

// ContainerSettings returns the settings that say what a container is, beside what any
// sandbox is.
func ContainerSettings() []string {
	return []string{
		"mounts", "publish", "network_mode", "labels",
		"sandbox.disk_bytes", "sandbox.gpus", "sandbox.no_new_privileges", "sandbox.seccomp", "sandbox.runtime",
	}
}

// AddContainer adds to a specification what the configuration says of containers; relative
// sources of mounts begin at dir. As with images, what file and environment say is for
// containers alone, and what a flag says is demanded of any sandbox.
func AddContainer(s *berth.Spec, c *config.Config, b all.Backend, dir string) {
	if b.Container || c.Given("mounts") {
		s.Mounts = slices.Clone(c.Container.Mounts)
		for i := range s.Mounts {
			if m := &s.Mounts[i]; !filepath.IsAbs(m.Source) {
				m.Source = filepath.Join(dir, m.Source)
			}
		}
	}
	if b.Container || c.Given("publish") {
		s.Ports = slices.Clone(c.Container.Ports)
	}
	if b.Container || c.Given("network_mode") {
		s.NetworkMode = c.Container.NetworkMode
	}
	if b.Container || c.Given("labels") {
		s.Labels = maps.Clone(c.Container.Labels)
	}
}

// KeepSecrets moves the variables of a container that hold secrets to where their values
// are in no listing. A variable that no secret can be called stays. A secret that there is
// not is refused.
func KeepSecrets(s *berth.Spec, c *config.Config, b all.Backend) error {
	if err := checkSecrets(c, s.Env); err != nil {
		return err
	}
	for name, value := range s.Env {
		if b.Container && slices.Contains(c.Secrets, name) && !spec.ReservedSecret(name) {
			if s.Secrets == nil {
				s.Secrets = map[string]string{}
			}
			s.Secrets[name] = value
			delete(s.Env, name)
		}
	}
	return nil
}
