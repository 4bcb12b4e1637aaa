//go:build !linux

package place

import (
	"context"
	"errors"
	"net"

	"github.com/berth-dev/berth/spec"
)

func unsupported() error {
	return &spec.Error{Code: spec.CodeUnsupported, Err: errors.New("places of this kind exist on linux only"), Hint: "use a container, or a Linux machine over ssh"}
}

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

// Discard is not supported here.
func (r *Root) Discard(context.Context, Record) error { return unsupported() }

// Intact is not supported here.
func (r *Root) Intact(Record) error { return unsupported() }

// Running reports false: nothing runs here.
func (r *Root) Running(Record) bool { return false }
