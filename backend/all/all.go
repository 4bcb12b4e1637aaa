// Package all lists the backends. It is what a program imports that lets its users
// choose one by name; a program that knows which one it wants imports that alone.
//
// There is no registration: a backend is here because this package names it.
package all

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/backend/docker"
	"github.com/berth-dev/berth/backend/podman"
	"github.com/berth-dev/berth/backend/process"
	"github.com/berth-dev/berth/backend/ssh"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Options holds the options of every backend.
type Options struct {
	Process process.Options
	Docker  docker.Options
	Podman  podman.Options
	SSH     ssh.Options
}

// LookOnly returns o in a form in which no backend starts an engine that is started on
// demand: for programs that look at what is there.
func (o Options) LookOnly() Options {
	if o.Podman.Service != nil {
		service := *o.Podman.Service
		service.LookOnly = true
		o.Podman.Service = &service
	}
	return o
}

// Backend is one row of a Registry: what a program has to know before it has a
// driver.
type Backend struct {
	Name string
	// Local: places live in the file system of this machine, so that its paths
	// mean something there.
	Local bool
	// Container: places are made of an image.
	Container bool
	// Isolation is what a spec gets that asks for none in particular.
	Isolation spec.Isolation
	// Open makes a driver. It reaches nothing, so its error is one of the
	// options. Each call gives a driver of its own, as another process would
	// have one.
	Open func() (driver.Driver, error)
}

// Registry is the list of backends, each with its options. It does not change and is
// safe for concurrent use.
type Registry struct{ backends []Backend }

// New returns the registry of all backends.
func New(o Options) *Registry {
	return &Registry{backends: []Backend{
		{Name: "process", Local: true, Isolation: spec.IsolationGuard, Open: func() (driver.Driver, error) { return process.New(o.Process) }},
		{Name: "docker", Container: true, Isolation: spec.IsolationStandard, Open: func() (driver.Driver, error) { return docker.New(o.Docker) }},
		{Name: "podman", Container: true, Isolation: spec.IsolationStandard, Open: func() (driver.Driver, error) { return podman.New(o.Podman) }},
		{Name: "ssh", Isolation: spec.IsolationNone, Open: func() (driver.Driver, error) { return ssh.New(o.SSH) }},
	}}
}

// Backends returns all rows, in their stable order.
func (r *Registry) Backends() []Backend { return slices.Clone(r.backends) }

// Names returns the names in the same order.
func (r *Registry) Names() []string {
	var names []string
	for _, b := range r.backends {
		names = append(names, b.Name)
	}
	return names
}

// Lookup returns the row of a name. An unknown one is CodeInvalid.
func (r *Registry) Lookup(name string) (Backend, error) {
	for _, b := range r.backends {
		if b.Name == name {
			return b, nil
		}
	}
	return Backend{}, &spec.Error{Code: spec.CodeInvalid, Err: fmt.Errorf("there is no backend %q", name), Hint: "the backends are " + strings.Join(r.Names(), ", ")}
}

// Open makes a driver of the backend that has name.
func (r *Registry) Open(name string) (driver.Driver, error) {
	b, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	return b.Open()
}
