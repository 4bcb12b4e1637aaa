//go:build !linux

package place

import (
	"context"
	"net"

	"github.com/berth-dev/berth/spec"
)

func unsupported() error {
	return &spec.Error{Code: spec.CodeUnsupported, Err: errNotLinux, Hint: "use a container, or a Linux machine over ssh"}
}

var errNotLinux = spec.New(spec.CodeUnsupported, "places of this kind exist on linux only").Err

// Provision is not supported here.
func (r *Root) Provision(context.Context, *spec.Spec, ProvisionOptions) (net.Conn, Record, error) {
	return nil, Record{}, unsupported()
}

// Attach is not supported here.
func (r *Root) Attach(context.Context, spec.Key) (net.Conn, Record, error) {
	return nil, Record{}, unsupported()
}

// Dial is not supported here.
func (r *Root) Dial(context.Context, string) (net.Conn, error) { return nil, unsupported() }

// Owned is not supported here.
func (r *Root) Owned(context.Context) ([]spec.Owned, error) { return nil, unsupported() }

// Reap is not supported here.
func (r *Root) Reap(context.Context, spec.Key, EndOptions) error { return unsupported() }

// Stop is not supported here.
func (r *Root) Stop(context.Context, spec.Key, EndOptions) error { return unsupported() }
