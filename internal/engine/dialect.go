package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/spec"
	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Dialect says in what one kind of engine differs from another that speaks the same
// API.
type Dialect struct {
	// Name is the backend's, and that of the engine's own command; Title is what
	// people call it; Oldest is the version from which on it is understood.
	Name, Title, Oldest string
	// Host is where it listens unless something else is said.
	Host string
	// The advice for an engine that is not there, for one that is not there at an
	// address that somebody gave, and for one that is closed to this user.
	AbsentHint, NamedHint, ClosedHint string
	// States translates the states of containers that only this engine knows.
	States map[container.ContainerState]container.ContainerState
	// DefaultCaps is nil where an engine repeats what was to be dropped as it was asked
	// for. Else it reports what its own default has and a container has not, and these
	// are in every such default; RootCaps are those that no container has without root.
	DefaultCaps, RootCaps []string
	// Taken reports of the error of a creation, which is no conflict, that the name
	// is in use all the same; nil: such names are conflicts.
	Taken func(error) bool
	// MakesSources: it makes an empty directory of the source of a mount that is missing.
	MakesSources bool
	// StorePerUser: whatever socket leads to it, a user's engine has the same containers.
	StorePerUser bool
	// Libpod: it has an API of its own beside Docker's, which tells more, and takes a profile
	// of system calls as the name of a file.
	Libpod bool
	// VolumesApart: the archive of a directory has nothing of what is mounted below it, that
	// of what is in a volume says nothing of its owner, and an image that is committed of a
	// container declares its volumes.
	VolumesApart bool
}

// NormalCaps brings capabilities into one form - upper case, no prefix, sorted, each
// once - in a fresh slice. ALL absorbs the rest.
func NormalCaps(in []string) ([]string, error) {
	var out []string
	for _, c := range in {
		c = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(c)), "CAP_")
		if c == "" || strings.Trim(c, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
			return nil, spec.New(spec.CodeInvalid, fmt.Sprintf("capability %.64q: not a name", c))
		}
		out = append(out, c)
	}
	if slices.Contains(out, "ALL") {
		return []string{"ALL"}, nil
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Dropped reports whether the capabilities that an engine reports as dropped are those
// that were to be: both in their one form, upper case, sorted, without a prefix.
func (d Dialect) Dropped(want, reported []string) bool {
	if d.DefaultCaps == nil {
		return slices.Equal(want, reported)
	}
	wanted := func(c string) bool { return slices.Contains(want, c) || slices.Contains(want, "ALL") }
	for _, c := range d.DefaultCaps {
		if wanted(c) && !slices.Contains(reported, c) {
			return false
		}
	}
	return !slices.ContainsFunc(reported, func(c string) bool { return !wanted(c) && !slices.Contains(d.RootCaps, c) })
}

// state is one of Docker's states.
func (d Dialect) state(s container.ContainerState) container.ContainerState {
	if known, ok := d.States[s]; ok {
		return known
	}
	return s
}

// Docker is the dialect of Docker engines.
func Docker() Dialect {
	return Dialect{
		Name: "docker", Title: "Docker", Oldest: "19.03", Host: client.DefaultDockerHost,
		AbsentHint: "start dockerd (sudo systemctl start docker; install docker.io if there is none), or set DOCKER_HOST to another engine",
		NamedHint:  "DOCKER_HOST (docker.host, Options.Host) points there: unset it for this machine's own engine, or start the dockerd of that address",
		ClosedHint: "add the user to the docker group, or name another engine with DOCKER_HOST",
	}
}

// Podman is the dialect of Podman's service that speaks Docker's API.
func Podman() Dialect {
	return Dialect{
		Libpod: true, VolumesApart: true, StorePerUser: true, MakesSources: true,
		Name: "podman", Title: "Podman", Oldest: "4.0", Host: "unix:///run/podman/podman.sock",
		AbsentHint: "start its service (sudo systemctl start podman.socket, or podman system service --time=0; install podman if there is none), or set CONTAINER_HOST to another one",
		NamedHint:  "CONTAINER_HOST (podman.host, Options.Host) points there: unset it for this machine's own engine, or start the service of that address (podman system service --time=0 ADDRESS)",
		ClosedHint: "that is root's service: start this user's own (systemctl --user start podman.socket) and name it with CONTAINER_HOST",
		States: map[container.ContainerState]container.ContainerState{
			"configured": container.StateCreated, "initialized": container.StateCreated,
			"stopping": container.StateRunning, "stopped": container.StateExited,
		},
		// Those of containers.conf(5); what a distribution adds need not be there.
		DefaultCaps: []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"},
		RootCaps:    []string{"AUDIT_WRITE", "MKNOD"},
		Taken:       takenInStorage,
	}
}

// takenInStorage recognises a creation that lost a race: Podman reserves a name with its
// storage first, whose refusal it passes on as an internal error. The end of that text is
// the cause, in which nothing of the request is quoted.
func takenInStorage(err error) bool {
	return cerrdefs.IsInternal(err) && strings.HasSuffix(err.Error(), "that name is already in use")
}
