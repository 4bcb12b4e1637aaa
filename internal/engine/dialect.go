package engine

import "github.com/moby/moby/client"

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
